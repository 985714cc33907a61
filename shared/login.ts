/**
 * The login of a crawl file: a form that a slave sends before its first page of the crawl. A secret
 * is never a part of the crawl: it stands as `$NAME`, and the master reads that variable of its
 * environment when it gives the crawl to a slave. Source: docs/login.md, [T-93].
 */
import * as z from 'zod';
import { selectorSchema } from './items.ts';

const loginLimits = { fieldsMax: 50, nameChars: 256, valueChars: 4_096 } as const;
/** Attempts of each identity. */
export const loginTries = 3;

const value = z
  .union([z.string(), z.number(), z.boolean()], { error: 'must be text; put it into quotes' })
  .transform(String)
  .refine((text) => text.length <= loginLimits.valueChars, {
    error: `must have at most ${loginLimits.valueChars} characters`,
  });

export const loginSchema = z.strictObject(
  {
    /** The page that has the form. */
    url: z
      .string({ error: 'must be the URL of the page that has the form' })
      .max(2_048, { error: 'must have at most 2048 characters' })
      .refine(isPageUrl, {
        error: 'must be an http or https URL, in full',
      }),
    /** Default: the first form that has all the fields. */
    form: selectorSchema.optional(),
    /** By their names in the form; others keep the values that they have there. */
    fields: z
      .record(z.string().min(1).max(loginLimits.nameChars), value, {
        error: 'must be the fields of the form, such as {user: me, password: $SITE_PASSWORD}',
      })
      .refine((fields) => Object.keys(fields).length > 0, { error: 'must have a field' })
      .refine((fields) => Object.keys(fields).length <= loginLimits.fieldsMax, {
        error: `must have at most ${loginLimits.fieldsMax} fields`,
      }),
    /** Found on the page after it, if it succeeded. */
    until: selectorSchema,
  },
  { error: keysText },
);
export type Login = z.infer<typeof loginSchema>;

function isPageUrl(text: string): boolean {
  if (!/^https?:\/\/[^/?#@]+(?:[/?#]|$)/i.test(text) || !URL.canParse(text)) return false;
  return new URL(text).hostname !== '';
}

function keysText(issue: { code?: string; keys?: unknown }): string | undefined {
  if (issue.code === 'unrecognized_keys' && Array.isArray(issue.keys)) {
    return `has an unknown key: ${issue.keys.join(', ')}; its keys are url, form, fields, until`;
  }
  return issue.code === 'invalid_type'
    ? 'must have url, fields and until: see docs/login.md'
    : undefined;
}

/** The variable of the master that a value names; undefined: it is meant as it stands. */
function variableOf(text: string): string | undefined {
  return /^\$([A-Za-z_]\w*)$/.exec(text)?.[1];
}

/** Why the values of a login cannot be had; undefined: they can. */
export function loginFault(login: Login, env: Environment): string | undefined {
  for (const text of Object.values(login.fields)) {
    const name = variableOf(text);
    if (name === undefined) continue;
    if (isOwn(name)) return ownText(name);
    if ((env[name] ?? '') === '') {
      return `the variable ${name} is not set where the master runs; set it and start the master again`;
    }
  }
  return undefined;
}

/** Why no login may have this value; undefined: it may. */
export function valueFault(text: string): string | undefined {
  const name = variableOf(text);
  return name !== undefined && isOwn(name) ? ownText(name) : undefined;
}

/** The login with the values of its variables; `$$NAME` stands for `$NAME`. */
export function filledLogin(login: Login, env: Environment): Login {
  const fields = Object.entries(login.fields).map(([name, text]) => {
    const variable = variableOf(text);
    const plain = text.startsWith('$$') ? text.slice(1) : text;
    const isKnown = variable !== undefined && !isOwn(variable);
    return [name, isKnown ? (env[variable] ?? '') : plain] as const;
  });
  return { ...login, fields: Object.fromEntries(fields) };
}

export type Environment = Readonly<Record<string, string | undefined>>;

function isOwn(name: string): boolean {
  return name.startsWith('ORB_');
}

function ownText(name: string): string {
  return `must not name ${name}: the variables ORB_… are those of the master itself`;
}
