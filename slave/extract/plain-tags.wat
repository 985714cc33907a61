;; Skips text and the tags of HTML that say nothing to an extractor, and reads plain links: the
;; inner loop of the scanner, in its state "text" outside svg and math.
;;
;; Memory: bytes 0..63 hold, by the first letter & 31 of a name, the lengths of the names that the
;; scanner reads itself, as bits (u16). Bytes 64..319 hold the classes of each character, as bits:
;; 1 space, 2 ends the name of a tag, 4 of an attribute, 8 a value without quotes, 16 letter, 32
;; letter or digit. Bytes 320..323 say where the links end that were read; 328..8191 hold these:
;; start and end of each value (u32 twice). The page is where the caller says, with 16 bytes of room
;; after it.
;; skip(at, end, letters, links) reads from `at` on and returns the position of the first "<" that
;; is not for here, or `end`. `letters`: a tag is not for here if the first letter & 31 of one of
;; its attributes is among these bits. `links`: 1 if the href of an `a` element is read here.
;; Whatever `end` cuts, and all that is not a plain tag, is left to the scanner.
;; Source: HTML Standard 13.2.5 (tokenization).
(module
  (memory (export "memory") 1)
  (global $linksEnd (mut i32) (i32.const 0))

  ;; The first of `c` in [at, end), or a position from `end` on.
  (func $find (param $at i32) (param $end i32) (param $c v128) (result i32)
    (local $bits i32)
    (loop $next
      (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (local.get $end))))
      (local.set $bits
        (i8x16.bitmask (i8x16.eq (v128.load (local.get $at)) (local.get $c))))
      (if (local.get $bits)
        (then (return (i32.add (local.get $at) (i32.ctz (local.get $bits))))))
      (local.set $at (i32.add (local.get $at) (i32.const 16)))
      (br $next))
    (unreachable))

  ;; "<" at a start tag, `at` after its first letter: returns the position after ">", or 0 if the
  ;; scanner must read it.
  (func $startTag (param $start i32) (param $end i32) (param $letters i32) (param $links i32)
    (result i32)
    (local $at i32) (local $c i32) (local $name i32) (local $nameEnd i32)
    (local $value i32) (local $valueEnd i32) (local $isLink i32)
    (local $href i32) (local $hrefEnd i32)
    (local.set $at (local.get $start))
    (loop $nameLoop
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i32.const 0))))
      (br_if $nameLoop (i32.eqz (i32.and (i32.const 2)
        (i32.load8_u offset=64 (i32.load8_u (local.get $at)))))))
    (local.set $c (i32.or (i32.load8_u (local.get $start)) (i32.const 0x20)))
    (local.set $value (i32.sub (local.get $at) (local.get $start)))
    (if (i32.and (i32.const 1) (i32.shr_u
          (i32.load16_u (i32.shl (i32.and (local.get $c) (i32.const 31)) (i32.const 1)))
          (local.get $value)))
      (then
        (local.set $isLink (i32.and (i32.and (local.get $links)
          (i32.eq (local.get $c) (i32.const 0x61))) (i32.eq (local.get $value) (i32.const 1))))
        (if (i32.eqz (local.get $isLink)) (then (return (i32.const 0))))))
    (loop $attributes
      (loop $before
        (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i32.const 0))))
        (local.set $c (i32.load8_u (local.get $at)))
        (if (i32.or (i32.eq (local.get $c) (i32.const 0x2f))
                    (i32.and (i32.const 1) (i32.load8_u offset=64 (local.get $c))))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $before))))
      (if (i32.eq (local.get $c) (i32.const 0x3e))
        (then
          (if (local.get $href)
            (then
              (if (i32.ge_u (global.get $linksEnd) (i32.const 8192))
                (then (return (i32.const 0))))
              (i32.store (global.get $linksEnd) (local.get $href))
              (i32.store offset=4 (global.get $linksEnd) (local.get $hrefEnd))
              (global.set $linksEnd (i32.add (global.get $linksEnd) (i32.const 8)))))
          (return (i32.add (local.get $at) (i32.const 1)))))
      (local.set $name (local.get $at))
      (loop $nameLoop
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i32.const 0))))
        (br_if $nameLoop (i32.eqz (i32.and (i32.const 4)
          (i32.load8_u offset=64 (i32.load8_u (local.get $at)))))))
      (local.set $nameEnd (local.get $at))
      (local.set $value (local.get $at))
      (local.set $valueEnd (local.get $at))
      (loop $after
        (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i32.const 0))))
        (local.set $c (i32.load8_u (local.get $at)))
        (if (i32.and (i32.const 1) (i32.load8_u offset=64 (local.get $c)))
          (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br $after))))
      (if (i32.eq (local.get $c) (i32.const 0x3d))
        (then
          (loop $beforeValue
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (i32.const 0))))
            (local.set $c (i32.load8_u (local.get $at)))
            (br_if $beforeValue
              (i32.and (i32.const 1) (i32.load8_u offset=64 (local.get $c)))))
          (if (i32.or (i32.eq (local.get $c) (i32.const 0x22))
                      (i32.eq (local.get $c) (i32.const 0x27)))
            (then
              (local.set $value (i32.add (local.get $at) (i32.const 1)))
              (local.set $valueEnd
                (call $find (local.get $value) (local.get $end) (i8x16.splat (local.get $c))))
              (local.set $at (i32.add (local.get $valueEnd) (i32.const 1))))
            (else
              (local.set $value (local.get $at))
              (loop $unquoted
                (if (i32.lt_u (local.get $at) (local.get $end))
                  (then
                    (if (i32.eqz (i32.and (i32.const 8)
                          (i32.load8_u offset=64 (i32.load8_u (local.get $at)))))
                      (then
                        (local.set $at (i32.add (local.get $at) (i32.const 1)))
                        (br $unquoted))))))
              (local.set $valueEnd (local.get $at))))
          (if (i32.ge_u (local.get $valueEnd) (local.get $end)) (then (return (i32.const 0))))))
      (local.set $c (i32.load8_u (local.get $name)))
      (if (i32.and (local.get $isLink)
            (i32.and (i32.eq (i32.sub (local.get $nameEnd) (local.get $name)) (i32.const 4))
              (i32.eq (i32.or (i32.load (local.get $name)) (i32.const 0x20202020))
                      (i32.const 0x66657268))))
        (then
          (if (i32.eqz (local.get $href))
            (then
              (local.set $href (local.get $value))
              (local.set $hrefEnd (local.get $valueEnd)))))
        (else
          (if (i32.and (i32.const 1) (i32.shr_u (local.get $letters) (local.get $c)))
            (then (return (i32.const 0))))))
      (br $attributes))
    (unreachable))

  (func $text (param $at i32) (param $end i32) (param $letters i32) (param $links i32)
    (result i32)
    (local $c i32) (local $open i32)
    (global.set $linksEnd (i32.const 328))
    (loop $next
      (local.set $open (call $find (local.get $at) (local.get $end) (i8x16.splat (i32.const 0x3c))))
      (if (i32.ge_u (i32.add (local.get $open) (i32.const 2)) (local.get $end))
        (then
          (if (i32.gt_u (local.get $open) (local.get $end)) (then (return (local.get $end))))
          (return (local.get $open))))
      (local.set $c (i32.load8_u offset=1 (local.get $open)))
      (if (i32.and (i32.const 16) (i32.load8_u offset=64 (local.get $c)))
        (then
          (local.set $at (call $startTag
            (i32.add (local.get $open) (i32.const 1)) (local.get $end)
            (local.get $letters) (local.get $links)))
          (br_if $next (local.get $at))
          (return (local.get $open))))
      (if (i32.eq (local.get $c) (i32.const 0x2f))
        (then
          (if (i32.eqz (i32.and (i32.const 16)
                (i32.load8_u offset=64 (i32.load8_u offset=2 (local.get $open)))))
            (then (return (local.get $open))))
          (local.set $at (i32.add (local.get $open) (i32.const 2)))
          (loop $nameLoop
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (if (i32.ge_u (local.get $at) (local.get $end)) (then (return (local.get $open))))
            (local.set $c (i32.load8_u (local.get $at)))
            (br_if $nameLoop
              (i32.and (i32.const 32) (i32.load8_u offset=64 (local.get $c)))))
          (if (i32.eq (local.get $c) (i32.const 0x3e))
            (then
              (local.set $at (i32.add (local.get $at) (i32.const 1)))
              (br $next)))))
      (return (local.get $open)))
    (unreachable))

  (func (export "skip") (param $at i32) (param $end i32) (param $letters i32) (param $links i32)
    (result i32)
    (local.set $at (call $text (local.get $at) (local.get $end) (local.get $letters)
      (local.get $links)))
    (i32.store (i32.const 320) (global.get $linksEnd))
    (local.get $at)))
