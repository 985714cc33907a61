/** The user and password of a URL, and the credentials made of them. Pure. */

type User = { readonly username: string; readonly password: string };

/** Value of Authorization or Proxy-Authorization. Source: RFC 7617. */
export function basicAuth(url: User): string {
  const { username, password } = decodedUser(url);
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

/** The user of a URL is percent-encoded UTF-8; other text is returned unchanged. */
export function decodedUser({ username, password }: User): User {
  return { username: decoded(username), password: decoded(password) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
