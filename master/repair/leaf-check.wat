;; Checks a leaf page of an LMDB tree: the order of its rows, and the CRC-32 of each, as in zlib.
;;
;; Memory: bytes 0..8191 hold eight tables of 256 words: table k has the CRC of a byte that is followed by k
;; zeros. The caller fills them, and puts pages behind. rows(page) returns the number of rows; -1: one is not
;; as it should be, or has pages of its own. The pointers of the page to its rows have been checked.
;; Source: Kounavis & Berry, "A Systematic Approach to Building High Performance, Software-based, CRC
;; Generators" (2005); liblmdb/mdb.c of lmdb-js 3.5 (MDB_page, MDB_node).
(module
  (memory (export "memory") 1)

  ;; The CRC-32 of the bytes from `at` up to `end`, eight at a time. Of a word, bits 0 to 7 of a byte
  ;; times four are the place in a table.
  (func $crc (param $at i32) (param $end i32) (result i32)
    (local $crc i32) (local $a i32) (local $b i32)
    (local.set $crc (i32.const -1))
    (block $few
      (loop $eight
        (br_if $few (i32.lt_u (i32.sub (local.get $end) (local.get $at)) (i32.const 8)))
        (local.set $a (i32.xor (i32.load (local.get $at)) (local.get $crc)))
        (local.set $b (i32.load offset=4 (local.get $at)))
        (local.set $crc
          (i32.xor
            (i32.xor
              (i32.xor
                (i32.load offset=7168 (i32.and (i32.shl (local.get $a) (i32.const 2)) (i32.const 1020)))
                (i32.load offset=6144 (i32.and (i32.shr_u (local.get $a) (i32.const 6)) (i32.const 1020))))
              (i32.xor
                (i32.load offset=5120 (i32.and (i32.shr_u (local.get $a) (i32.const 14)) (i32.const 1020)))
                (i32.load offset=4096 (i32.and (i32.shr_u (local.get $a) (i32.const 22)) (i32.const 1020)))))
            (i32.xor
              (i32.xor
                (i32.load offset=3072 (i32.and (i32.shl (local.get $b) (i32.const 2)) (i32.const 1020)))
                (i32.load offset=2048 (i32.and (i32.shr_u (local.get $b) (i32.const 6)) (i32.const 1020))))
              (i32.xor
                (i32.load offset=1024 (i32.and (i32.shr_u (local.get $b) (i32.const 14)) (i32.const 1020)))
                (i32.load (i32.and (i32.shr_u (local.get $b) (i32.const 22)) (i32.const 1020)))))))
        (local.set $at (i32.add (local.get $at) (i32.const 8)))
        (br $eight)))
    (block $done
      (loop $one
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (local.set $crc
          (i32.xor
            (i32.load
              (i32.shl
                (i32.and (i32.xor (local.get $crc) (i32.load8_u (local.get $at))) (i32.const 255))
                (i32.const 2)))
            (i32.shr_u (local.get $crc) (i32.const 8))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $one)))
    (i32.xor (local.get $crc) (i32.const -1)))

  ;; 1: the key at `a` stands behind that at `b`.
  (func $after (param $a i32) (param $aEnd i32) (param $b i32) (param $bEnd i32) (result i32)
    (local $x i32) (local $y i32)
    (loop $next
      (if (i32.eq (local.get $a) (local.get $aEnd)) (then (return (i32.const 0))))
      (if (i32.eq (local.get $b) (local.get $bEnd)) (then (return (i32.const 1))))
      (local.set $x (i32.load8_u (local.get $a)))
      (local.set $y (i32.load8_u (local.get $b)))
      (if (i32.ne (local.get $x) (local.get $y))
        (then (return (i32.gt_u (local.get $x) (local.get $y)))))
      (local.set $a (i32.add (local.get $a) (i32.const 1)))
      (local.set $b (i32.add (local.get $b) (i32.const 1)))
      (br $next))
    (unreachable))

  (func (export "rows") (param $page i32) (result i32)
    (local $count i32) (local $i i32) (local $node i32)
    (local $key i32) (local $keyEnd i32) (local $bytes i32) (local $end i32)
    (local $last i32) (local $lastEnd i32)
    (local.set $count (i32.shr_u (i32.load16_u offset=20 (local.get $page)) (i32.const 1)))
    (block $all
      (loop $next
        (br_if $all (i32.ge_u (local.get $i) (local.get $count)))
        (local.set $node
          (i32.add
            (i32.add (local.get $page) (i32.const 24))
            (i32.load16_u offset=24
              (i32.add (local.get $page) (i32.shl (local.get $i) (i32.const 1))))))
        (local.set $bytes (i32.load (local.get $node)))
        (local.set $key (i32.add (local.get $node) (i32.const 8)))
        (local.set $keyEnd (i32.add (local.get $key) (i32.load16_u offset=6 (local.get $node))))
        (local.set $end (i32.add (local.get $keyEnd) (local.get $bytes)))
        ;; Flags; a key that is too long; a value without its CRC, or beyond the page.
        (if
          (i32.or
            (i32.or
              (i32.load16_u offset=4 (local.get $node))
              (i32.gt_u (i32.load16_u offset=6 (local.get $node)) (i32.const 511)))
            (i32.or
              (i32.gt_u (i32.sub (local.get $bytes) (i32.const 4)) (i32.const 4092))
              (i32.gt_u (local.get $end) (i32.add (local.get $page) (i32.const 4096)))))
          (then (return (i32.const -1))))
        (if (i32.gt_u (local.get $i) (i32.const 0))
          (then
            (if
              (i32.eqz
                (call $after
                  (local.get $key) (local.get $keyEnd) (local.get $last) (local.get $lastEnd)))
              (then (return (i32.const -1))))))
        (local.set $end (i32.sub (local.get $end) (i32.const 4)))
        (if
          (i32.ne (call $crc (local.get $key) (local.get $end)) (i32.load (local.get $end)))
          (then (return (i32.const -1))))
        (local.set $last (local.get $key))
        (local.set $lastEnd (local.get $keyEnd))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (local.get $count)))
