// A program as one file that starts from a cache: master.js and slave.js are a short loader, and the
// program after it in a comment, which Node passes over. The loader compiles the program with V8's
// cache of it, if `dist/start/` beside the file has one: half of what a start costs is compiling.
// Without it (a slave.js that was copied to another machine, another version of Node) the program
// starts as ever. Node 22 has `module.enableCompileCache`, but Node 20 has not.
//
// The cache is made by `start-cache.mjs`: a run with ORBWEAVER_START_CACHE=write leaves one at its
// end, so that it has all functions that a crawl calls. V8 itself refuses the cache of another
// version, or of other flags; that it is of this very text says its name.
import { isAscii } from 'node:buffer';
import { createHash } from 'node:crypto';

const opening = '/*PROGRAM';
/** Stands for the end of a comment in the program, in a regular expression for example. */
const ending = '*\x01/';

/** What the program finds around it. `__import`: V8 forgets in its cache how a script imports. */
const parameters = 'require,__import,__url';

/** Options of esbuild for the text of such a program. */
export const programBuild = {
  format: 'cjs',
  define: { 'import.meta.url': '__url' },
  write: false,
};

/** V8 makes fast code of a function that has run for so long, by default 67,584 bytes of bytecode.
 *  In a short crawl that takes more than it gives: 700 pages take 0.85 times the CPU with this, 4,000
 *  the same. For the versions in which it was measured: later ones have a compiler in between. */
const patience = { major: '20.', flag: '--interrupt-budget=540000' };

/** @param {string} code  bundled with `programBuild`
 *  @param {readonly string[]} flags  of V8, for this program */
export function programFile(name, code, flags) {
  if (!isAscii(Buffer.from(code)) || code.includes(ending))
    throw new Error(`${name}: not plain ASCII`);
  const imports = code.replace(/\bimport\(/g, '__import(');
  const text = `(function(${parameters}){'use strict';${imports}\n})`;
  const id = createHash('sha256')
    .update(text)
    .update(String([...flags, patience.flag]))
    .digest('hex')
    .slice(0, 16);
  return `${loader(name, id, flags)}\n${opening}${text.replaceAll('*/', ending)}*/\n`;
}

const loader = (name, id, given) => `import{readFileSync,renameSync,writeFileSync}from'node:fs';
import{createRequire}from'node:module';
import{fileURLToPath}from'node:url';
import v8 from'node:v8';
import{Script}from'node:vm';
import zlib from'node:zlib';
// A slave.js that was copied to a machine with an old Node would fail somewhere else.
if(!zlib.crc32){
console.error(\`${name}: Node \${process.versions.node} will not do; install Node 20.19, 22.12, 24 or newer\`);
process.exit(2);
}
const flags=${JSON.stringify(given)};
if(process.versions.node.startsWith('${patience.major}'))flags.push('${patience.flag}');
for(const flag of flags)v8.setFlagsFromString(flag);
const filename=fileURLToPath(import.meta.url);
const kept=new URL(\`dist/start/${name}-${id}-\${process.version}-\${process.arch}.bin\`,import.meta.url);
const file=readFileSync(filename);
const at=file.indexOf('\\n/*'+'PROGRAM')+${opening.length + 1};
const text=file.latin1Slice(at,file.lastIndexOf('*/')).replaceAll('*\\x01/','*/');
let cachedData;
try{
const all=readFileSync(kept),end=all.length-4;
// V8 does not look whether it is damaged.
if(zlib.crc32(all.subarray(0,end))===all.readUInt32LE(end))cachedData=all.subarray(0,end);
}catch{}
const script=new Script(text,{filename,cachedData});
if(process.env.ORBWEAVER_START_CACHE==='write')process.on('exit',()=>{
// A flag that the program has set would stand in the cache.
v8.setFlagsFromString('--no-expose-gc');
const path=fileURLToPath(kept),data=script.createCachedData(),sum=Buffer.alloc(4);
sum.writeUInt32LE(zlib.crc32(data));
writeFileSync(path+'.'+process.pid,Buffer.concat([data,sum]));
renameSync(path+'.'+process.pid,path);
});
script.runInThisContext()(createRequire(import.meta.url),(name)=>import(name),import.meta.url);`;
