// Unpacks LZMA, in the format of `xz --format=lzma` (.lzma): browsers unpack nothing as dense.

/// The bytes that `packed` stands for.
function unpackLzma(packed) {
  const head = packed[0];
  const [lc, lp, pb] = [head % 9, Math.floor(head / 9) % 5, Math.floor(head / 45)];
  const length = Number(new DataView(packed.buffer, packed.byteOffset).getBigUint64(5, true));
  if (length > 1 << 28) throw new Error("expected the length of the module in its head");
  const out = new Uint8Array(length);
  let [at, range, code] = [14, 0xffffffff, 0];
  for (let byte = 0; byte < 4; byte++) code = (code << 8 | packed[at++]) >>> 0;

  const half = (count) => new Uint16Array(count).fill(1024);
  const bit = (odds, index) => {
    const bound = (range >>> 11) * odds[index];
    let value = 0;
    if (code < bound) {
      range = bound;
      odds[index] += (2048 - odds[index]) >>> 5;
    } else {
      range -= bound;
      code -= bound;
      odds[index] -= odds[index] >>> 5;
      value = 1;
    }
    if (range < 0x1000000) {
      range = range * 256 >>> 0;
      code = (code * 256 >>> 0 | packed[at++]) >>> 0;
    }
    return value;
  };
  const even = (bits) => {
    let value = 0;
    for (; bits > 0; bits--) {
      range >>>= 1;
      const is = code >= range ? 1 : 0;
      if (is) code -= range;
      value = value * 2 + is;
      if (range < 0x1000000) {
        range = range * 256 >>> 0;
        code = (code * 256 >>> 0 | packed[at++]) >>> 0;
      }
    }
    return value;
  };
  const tree = (odds, bits, from = 0) => {
    let node = 1;
    for (let left = bits; left > 0; left--) node = node * 2 + bit(odds, from + node);
    return node - (1 << bits);
  };
  const reversed = (odds, bits, from) => {
    let [node, value] = [1, 0];
    for (let index = 0; index < bits; index++) {
      const is = bit(odds, from + node);
      node = node * 2 + is;
      value |= is << index;
    }
    return value;
  };
  const lengths = () => ({ choice: half(2), low: half(16 << 3), mid: half(16 << 3),
    high: half(256) });
  const lengthOf = (of, place) => {
    if (!bit(of.choice, 0)) return tree(of.low, 3, place << 3);
    if (!bit(of.choice, 1)) return 8 + tree(of.mid, 3, place << 3);
    return 16 + tree(of.high, 8);
  };

  const literal = half(0x300 << (lc + lp));
  const [isMatch, isRep0Long] = [half(192), half(192)];
  const [isRep, isRep0, isRep1, isRep2] = [half(12), half(12), half(12), half(12)];
  const [slots, special, align] = [half(4 << 6), half(128), half(16)];
  const [matches, repeats] = [lengths(), lengths()];
  let [done, state, rep0, rep1, rep2, rep3] = [0, 0, 0, 0, 0, 0];
  while (done < length) {
    const place = done & ((1 << pb) - 1);
    if (!bit(isMatch, (state << 4) + place)) {
      const before = done > 0 ? out[done - 1] : 0;
      const from = 0x300 * (((done & ((1 << lp) - 1)) << lc) + (before >>> (8 - lc)));
      let symbol = 1;
      if (state >= 7) {
        let match = out[done - rep0 - 1];
        while (symbol < 0x100) {
          const expected = match >>> 7 & 1;
          match = match << 1 & 0xff;
          const is = bit(literal, from + ((1 + expected) << 8) + symbol);
          symbol = symbol << 1 | is;
          if (is !== expected) break;
        }
      }
      while (symbol < 0x100) symbol = symbol << 1 | bit(literal, from + symbol);
      out[done++] = symbol & 0xff;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let count;
    if (bit(isRep, state)) {
      if (!bit(isRep0, state)) {
        if (!bit(isRep0Long, (state << 4) + place)) {
          state = state < 7 ? 9 : 11;
          out[done] = out[done - rep0 - 1];
          done++;
          continue;
        }
      } else {
        let distance;
        if (!bit(isRep1, state)) distance = rep1;
        else {
          if (!bit(isRep2, state)) distance = rep2;
          else [distance, rep3] = [rep3, rep2];
          rep2 = rep1;
        }
        [rep1, rep0] = [rep0, distance];
      }
      count = lengthOf(repeats, place);
      state = state < 7 ? 8 : 11;
    } else {
      [rep3, rep2, rep1] = [rep2, rep1, rep0];
      count = lengthOf(matches, place);
      state = state < 7 ? 7 : 10;
      const slot = tree(slots, 6, Math.min(count, 3) << 6);
      rep0 = slot;
      if (slot >= 4) {
        const bits = (slot >>> 1) - 1;
        rep0 = (2 | slot & 1) * 2 ** bits;
        if (slot < 14) rep0 += reversed(special, bits, rep0 - slot);
        else rep0 += even(bits - 4) * 16 + reversed(align, 4, 0);
      }
    }
    if (rep0 >= done) throw new Error("the module is damaged");
    for (const end = Math.min(done + count + 2, length); done < end; done++) {
      out[done] = out[done - rep0 - 1];
    }
  }
  return out;
}
