/** `scheme://…@`: greedy, because an unescaped secret may hold any character; a path with an `@` in it is cut too. */
const URL_USERINFO = /(\b[a-z][a-z0-9+.-]*:\/\/)\S*@/gi;
/** `user:secret@host` without a scheme; `name:tag@sha256:…` is none. */
const BARE_USERINFO = /(^|["\s])[^\s"/]+:[^\s"]*@(?!sha\d+:)/g;

/** Text of which no message may repeat the credentials that somebody has put into a reference (G-6). */
export function withoutUserinfo(text: string): string {
  return text.replace(URL_USERINFO, '$1').replace(BARE_USERINFO, '$1');
}
