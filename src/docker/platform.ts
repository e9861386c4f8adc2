/** Other spellings of an architecture, as machines report them. */
const ALIASES: Readonly<Record<string, string>> = { x86_64: 'amd64', aarch64: 'arm64' };

interface Platform {
  readonly os: string;
  readonly architecture: string;
  /** `v6`, `v7`, `v8`: a machine runs those of its own variant and below. */
  readonly variant: string | undefined;
}

/**
 * Whether an image can stand for a platform that was asked for. An engine hands out what it has: an amd64 image comes
 * for `linux/arm64` without an error (C17).
 *
 * @param image - `os/arch[/variant]`, as the image states it
 * @param asked - `os/arch[/variant]`, as the caller wrote it
 */
export function fitsPlatform(image: string, asked: string): boolean {
  const [has, wants] = [parse(image), parse(asked)];
  if (has.os !== wants.os || has.architecture !== wants.architecture) return false;
  return has.variant === undefined || wants.variant === undefined || has.variant <= wants.variant;
}

function parse(text: string): Platform {
  const [os = '', architecture = '', variant] = text.toLowerCase().split('/');
  return { os, architecture: ALIASES[architecture] ?? architecture, variant };
}
