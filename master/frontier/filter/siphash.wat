;; SipHash-1-3 with 128-bit output, over a batch of lines.
;;
;; Memory: bytes 0..15 hold the key (two little-endian u64), the caller picks the rest.
;; hashLines(text, end, out, ends, linesMax) hashes the bytes between line feeds from `text` up to `end`:
;; 16 bytes of digest per line to `out`, the line's end offset (u32) to `ends`. Empty lines are
;; skipped. It stops after `linesMax` lines and returns their count; `resume` says where it stopped.
;; Source: Aumasson & Bernstein, "SipHash: a fast short-input PRF" (2012); 128-bit variant as in
;; the authors' reference implementation (v1 ^= 0xee, second half after v1 ^= 0xdd).
(module
  (memory (export "memory") 1)
  (global $v0 (mut i64) (i64.const 0))
  (global $v1 (mut i64) (i64.const 0))
  (global $v2 (mut i64) (i64.const 0))
  (global $v3 (mut i64) (i64.const 0))
  (global $resume (export "resume") (mut i32) (i32.const 0))

  (func $round
    (local $a i64) (local $b i64) (local $c i64) (local $d i64)
    (local.set $a (i64.add (global.get $v0) (global.get $v1)))
    (local.set $b (i64.xor (i64.rotl (global.get $v1) (i64.const 13)) (local.get $a)))
    (local.set $a (i64.rotl (local.get $a) (i64.const 32)))
    (local.set $c (i64.add (global.get $v2) (global.get $v3)))
    (local.set $d (i64.xor (i64.rotl (global.get $v3) (i64.const 16)) (local.get $c)))
    (local.set $a (i64.add (local.get $a) (local.get $d)))
    (local.set $d (i64.xor (i64.rotl (local.get $d) (i64.const 21)) (local.get $a)))
    (local.set $c (i64.add (local.get $c) (local.get $b)))
    (local.set $b (i64.xor (i64.rotl (local.get $b) (i64.const 17)) (local.get $c)))
    (global.set $v0 (local.get $a))
    (global.set $v1 (local.get $b))
    (global.set $v2 (i64.rotl (local.get $c) (i64.const 32)))
    (global.set $v3 (local.get $d)))

  (func $xorAll (result i64)
    (i64.xor (i64.xor (global.get $v0) (global.get $v1))
             (i64.xor (global.get $v2) (global.get $v3))))

  ;; One message of bytes [from, to) -> 16 bytes at out.
  (func $hash (param $from i32) (param $to i32) (param $out i32)
    (local $m i64) (local $shift i64) (local $len i32)
    (local.set $len (i32.sub (local.get $to) (local.get $from)))
    (global.set $v0 (i64.xor (i64.load (i32.const 0)) (i64.const 0x736f6d6570736575)))
    (global.set $v1 (i64.xor (i64.load (i32.const 8)) (i64.const 0x646f72616e646f83)))  ;; ^ 0xee
    (global.set $v2 (i64.xor (i64.load (i32.const 0)) (i64.const 0x6c7967656e657261)))
    (global.set $v3 (i64.xor (i64.load (i32.const 8)) (i64.const 0x7465646279746573)))
    (block $wordsDone
      (loop $words
        (br_if $wordsDone (i32.lt_u (i32.sub (local.get $to) (local.get $from)) (i32.const 8)))
        (local.set $m (i64.load (local.get $from)))
        (global.set $v3 (i64.xor (global.get $v3) (local.get $m)))
        (call $round)
        (global.set $v0 (i64.xor (global.get $v0) (local.get $m)))
        (local.set $from (i32.add (local.get $from) (i32.const 8)))
        (br $words)))
    ;; the last word: the remaining bytes, and the length in the top byte
    (local.set $m (i64.shl (i64.extend_i32_u (local.get $len)) (i64.const 56)))
    (block $tailDone
      (loop $tail
        (br_if $tailDone (i32.ge_u (local.get $from) (local.get $to)))
        (local.set $m (i64.or (local.get $m)
          (i64.shl (i64.load8_u (local.get $from)) (local.get $shift))))
        (local.set $shift (i64.add (local.get $shift) (i64.const 8)))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (br $tail)))
    (global.set $v3 (i64.xor (global.get $v3) (local.get $m)))
    (call $round)
    (global.set $v0 (i64.xor (global.get $v0) (local.get $m)))
    (global.set $v2 (i64.xor (global.get $v2) (i64.const 0xee)))
    (call $round) (call $round) (call $round)
    (i64.store (local.get $out) (call $xorAll))
    (global.set $v1 (i64.xor (global.get $v1) (i64.const 0xdd)))
    (call $round) (call $round) (call $round)
    (i64.store offset=8 (local.get $out) (call $xorAll)))

  (func (export "hashLines")
    (param $at i32) (param $end i32) (param $out i32) (param $ends i32) (param $linesMax i32)
    (result i32)
    (local $from i32) (local $count i32)
    (block $done
      (loop $lines
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (br_if $done (i32.ge_u (local.get $count) (local.get $linesMax)))
        (local.set $from (local.get $at))
        (block $lineEnd
          (loop $scan
            (br_if $lineEnd (i32.ge_u (local.get $at) (local.get $end)))
            (br_if $lineEnd (i32.eq (i32.load8_u (local.get $at)) (i32.const 10)))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $scan)))
        (if (i32.ne (local.get $from) (local.get $at))
          (then
            (call $hash (local.get $from) (local.get $at)
              (i32.add (local.get $out) (i32.shl (local.get $count) (i32.const 4))))
            (i32.store (i32.add (local.get $ends) (i32.shl (local.get $count) (i32.const 2)))
              (local.get $at))
            (local.set $count (i32.add (local.get $count) (i32.const 1)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $lines)))
    (global.set $resume (local.get $at))
    (local.get $count)))
