/**
 * The decompressor of zstd, if this version of Node has one (22.15 and newer); the types that we
 * compile with are older. Source: RFC 8878; RFC 9659 bounds the window to 8 MiB.
 */
import { Transform } from 'node:stream';
import * as zlib from 'node:zlib';

/** ZSTD_d_windowLogMax in zstd.h. */
const windowLogMax = 100;
const params = { [windowLogMax]: 23 };
const make: unknown = Reflect.get(zlib, 'createZstdDecompress');

/** Undefined if Node has none. */
export const createZstd =
  typeof make === 'function'
    ? (chunkSize: number): Transform => {
        const stream: unknown = make({ chunkSize, params });
        if (stream instanceof Transform) return stream;
        throw new TypeError('createZstdDecompress made no stream');
      }
    : undefined;
