;; The nearest of many 64-bit hashes.
;;
;; Memory: bytes 0..7 hold the hash that is looked for, the others follow from byte 8 on.
;; nearest(count, below) returns the number of the first hash with the fewest bits that differ, if
;; these are fewer than `below`; -1: there is none. It ends early at one that is the same.
(module
  (memory (export "memory") 1)
  (global $best (mut i32) (i32.const 0))
  (global $found (mut i32) (i32.const -1))

  ;; Compares one hash. True: it is the same.
  (func $look (param $at i32) (param $bits i32) (result i32)
    (if (i32.lt_u (local.get $bits) (global.get $best))
      (then
        (global.set $best (local.get $bits))
        (global.set $found (i32.shr_u (i32.sub (local.get $at) (i32.const 8)) (i32.const 3)))))
    (i32.eqz (global.get $best)))

  (func (export "nearest") (param $count i32) (param $below i32) (result i32)
    (local $at i32) (local $end i32) (local $hash i64)
    (local $a i32) (local $b i32) (local $c i32) (local $d i32)
    (global.set $best (local.get $below))
    (global.set $found (i32.const -1))
    (local.set $hash (i64.load (i32.const 0)))
    (local.set $at (i32.const 8))
    ;; four at a time, as most of them are far
    (local.set $end (i32.add (i32.const 8)
      (i32.shl (i32.and (local.get $count) (i32.const -4)) (i32.const 3))))
    (block $foursDone
      (loop $fours
        (br_if $foursDone (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $a (i32.wrap_i64 (i64.popcnt
          (i64.xor (local.get $hash) (i64.load offset=0 (local.get $at))))))
        (local.set $b (i32.wrap_i64 (i64.popcnt
          (i64.xor (local.get $hash) (i64.load offset=8 (local.get $at))))))
        (local.set $c (i32.wrap_i64 (i64.popcnt
          (i64.xor (local.get $hash) (i64.load offset=16 (local.get $at))))))
        (local.set $d (i32.wrap_i64 (i64.popcnt
          (i64.xor (local.get $hash) (i64.load offset=24 (local.get $at))))))
        (if (i32.or
              (i32.or (i32.lt_u (local.get $a) (global.get $best))
                      (i32.lt_u (local.get $b) (global.get $best)))
              (i32.or (i32.lt_u (local.get $c) (global.get $best))
                      (i32.lt_u (local.get $d) (global.get $best))))
          (then
            (if (call $look (local.get $at) (local.get $a))
              (then (return (global.get $found))))
            (if (call $look (i32.add (local.get $at) (i32.const 8)) (local.get $b))
              (then (return (global.get $found))))
            (if (call $look (i32.add (local.get $at) (i32.const 16)) (local.get $c))
              (then (return (global.get $found))))
            (if (call $look (i32.add (local.get $at) (i32.const 24)) (local.get $d))
              (then (return (global.get $found))))))
        (local.set $at (i32.add (local.get $at) (i32.const 32)))
        (br $fours)))
    (local.set $end (i32.add (i32.const 8) (i32.shl (local.get $count) (i32.const 3))))
    (block $restDone
      (loop $rest
        (br_if $restDone (i32.ge_u (local.get $at) (local.get $end)))
        (if (call $look (local.get $at) (i32.wrap_i64 (i64.popcnt
              (i64.xor (local.get $hash) (i64.load (local.get $at))))))
          (then (return (global.get $found))))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br $rest)))
    (global.get $found)))
