/* Options as their declarations describe them: the docstrings are the one place where they are explained. */
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** One option of a public type. */
export interface OptionRow {
  readonly name: string;
  /** As it is declared; empty when only the docstring of a parameter tells of it. */
  readonly type: string;
  /** Purpose, unit and default. */
  readonly text: string;
}

/** Reads the public entries of the library. */
export class Declarations {
  readonly #checker: ts.TypeChecker;
  readonly #exported: ReadonlyMap<string, ts.Symbol>;

  constructor(entries: readonly string[]) {
    const root = fileURLToPath(new URL('../../', import.meta.url));
    const { config } = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path)) as {
      config: unknown;
    };
    const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
    const files = entries.map((entry) => `${root}src/${entry}`);
    const program = ts.createProgram(files, options);
    this.#checker = program.getTypeChecker();
    const modules = files.map((file) => program.getSourceFile(file)).filter((file) => file !== undefined);
    const symbols = modules.flatMap((file) => {
      const module = this.#checker.getSymbolAtLocation(file);
      return module === undefined ? [] : this.#checker.getExportsOfModule(module);
    });
    this.#exported = new Map(symbols.map((symbol) => [symbol.name, this.#resolved(symbol)]));
  }

  /** The properties of an exported type, those of all members of a union taken together; without `signal`, a part of each call. */
  ofType(name: string): readonly OptionRow[] {
    const type = this.#checker.getDeclaredTypeOfSymbol(this.#find(name));
    const members = type.isUnion() ? type.types : [type];
    const properties = members.flatMap((member) => this.#checker.getPropertiesOfType(member));
    const rows = properties.map((property): OptionRow => {
      const declaration = property.declarations?.find((one) => ts.isPropertySignature(one));
      return {
        name: property.name,
        type: tidy(declaration?.type?.getText() ?? ''),
        text: ts.displayPartsToString(property.getDocumentationComment(this.#checker)),
      };
    });
    const names = [...new Set(rows.map(({ name }) => name))].filter((name) => name !== 'signal');
    return names.map((name) => {
      const same = rows.filter((row) => row.name === name);
      const all = (of: 'type' | 'text', by: string): string =>
        [...new Set(same.map((row) => row[of]).filter((part) => part !== ''))].join(by);
      return { name, type: all('type', ' | '), text: all('text', ' / ') };
    });
  }

  /** The `@param o.…` tags of an exported function, or of the constructor of a class. */
  ofParameters(name: string): readonly OptionRow[] {
    const [declaration] = this.#find(name).declarations ?? [];
    if (declaration === undefined) throw new Error(`${name} has no declaration`);
    const called = ts.isClassDeclaration(declaration)
      ? declaration.members.find((member) => ts.isConstructorDeclaration(member))
      : declaration;
    const tags = called === undefined ? [] : ts.getJSDocTags(called).filter((tag) => ts.isJSDocParameterTag(tag));
    return tags.flatMap((tag): OptionRow[] => {
      const [, option] = /^o\.(\w+)$/.exec(tag.name.getText()) ?? [];
      const text = (ts.getTextOfJSDocComment(tag.comment) ?? '').replace(/^[\s-]+/, '');
      return option === undefined ? [] : [{ name: option, type: '', text }];
    });
  }

  #find(name: string): ts.Symbol {
    const symbol = this.#exported.get(name);
    if (symbol === undefined) throw new Error(`${name} is not exported`);
    return symbol;
  }

  #resolved(symbol: ts.Symbol): ts.Symbol {
    return (symbol.flags & ts.SymbolFlags.Alias) === 0 ? symbol : this.#checker.getAliasedSymbol(symbol);
  }
}

function tidy(type: string): string {
  return type
    .replace(/\/\*[^]*?\*\//g, '')
    .replace(/\breadonly /g, '')
    .replace(/\s+/g, ' ')
    .replace(/ \| undefined$/, '');
}
