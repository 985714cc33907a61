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

/** The globals of the program. `__import`: V8 forgets in its cache how a script imports. */
const parameters = 'require,__import,__url';

/** Options of esbuild for the text of such a program. */
export const programBuild = {
  format: 'cjs',
  define: { 'import.meta.url': '__url' },
  write: false,
};

/** @param {string} code  bundled with `programBuild`
 *  @param {{
 *    flags?: readonly string[],
 *    flagsOf20?: readonly string[],
 *    startFlags?: readonly string[],
 *    youngMb?: number,
 *    youngGrowth?: number,
 *    modules?: readonly string[],
 *  }} start  `flags` of V8, for this program; those that only Node 20 has; numbers that the process may have been
 *  started with, with which its young heap has less than `youngMb`; how often as large it is after so much, in Node 20;
 *  modules of Node that each start loads */
export function programFile(name, code, start) {
  const { flags = [], flagsOf20 = [], startFlags = [], youngMb = 1.5, modules = [] } = start;
  const { youngGrowth = usualGrowth } = start;
  if (!isAscii(Buffer.from(code)) || code.includes(ending))
    throw new Error(`${name}: not plain ASCII`);
  const imports = code.replace(/\bimport\(/g, '__import(');
  const text = `(function(${parameters}){'use strict';${imports}\n})`;
  const of20 = `...(process.version.startsWith('v20.')?${JSON.stringify(flagsOf20)}:[])`;
  const all = `[...${JSON.stringify(flags)},${of20}]`;
  const id = createHash('sha256').update(text).update(all).digest('hex').slice(0, 16);
  const unset = startFlags.map((flag) => flag.replace(/=.*/, '=0'));
  const head = loader(name, id, { flags: all, unset, youngMb, youngGrowth, modules });
  return `${head}\n${opening}${text.replaceAll('*/', ending)}*/\n`;
}

/** When little happens, V8 collects the whole heap up to three times, to give memory back. It waits 8 s before
 *  that (30 s in newer versions): a start then costs master and slave 0.1 CPU s in the half minute after it. The
 *  master gives back what a burst has left when it is idle (`memory-watch.ts`). */
export const idleFlag = (ms) => `--gc-memory-reducer-start-delay-ms=${ms}`;
/** Of Node 20. */
const idleMs = 8_000;
export const longIdleMs = 60_000;

/** The young heap grows by this factor when much of it survives. */
export const growthFlag = (factor) => `--semi-space-growth-factor=${factor}`;
const usualGrowth = 2;

const loader = (
  name,
  id,
  { flags, unset, youngMb, youngGrowth, modules },
) => `import{readFileSync,renameSync,writeFileSync}from'node:fs';
import{createRequire}from'node:module';
import{fileURLToPath}from'node:url';
import v8 from'node:v8';
const require=createRequire(import.meta.url);
const set=(flags)=>{for(const flag of flags)v8.setFlagsFromString(flag);};
// How long V8 waits before it collects for an idle process is settled by the first collection: a full young heap.
if(process.version.startsWith('v20.')){
set(['${idleFlag(longIdleMs)}','${growthFlag(youngGrowth)}']);
for(let filled=[];filled.length<${youngMb * 16};)filled.push(new Array(8000).fill(0));
set(['${idleFlag(idleMs)}','${growthFlag(usualGrowth)}']);
}
// V8 refuses Node's own cache of its modules while any flag is set. The heap is made already.
set(${JSON.stringify(unset)});
const{Script}=require('vm'),zlib=require('zlib');
// A slave.js that was copied to a machine with an old Node would fail somewhere else.
if(!zlib.crc32){
console.error(\`${name}: Node \${process.versions.node} will not do; install Node 20.19, 22.12, 24 or newer\`);
process.exit(2);
}
for(const module of ${JSON.stringify(modules)})require(module);
const setFlags=()=>set(${flags});
setFlags();
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
setFlags();
const path=fileURLToPath(kept),data=script.createCachedData(),sum=Buffer.alloc(4);
sum.writeUInt32LE(zlib.crc32(data));
writeFileSync(path+'.'+process.pid,Buffer.concat([data,sum]));
renameSync(path+'.'+process.pid,path);
});
script.runInThisContext()(require,(name)=>import(name),import.meta.url);`;
