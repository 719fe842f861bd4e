#include "chunk_gated_delta_rule_moves.h"

#undef RD_SITE
#define RD_SITE RD_VIA(site)

static void load_a(rd_npu_core *c, rd_npu_site site, uint64_t l0a, const rdn_cg_term *t,
                   uint32_t m1, uint32_t k1) {
  if (t->a_t) {
    load_cbuf_to_ca(l0a, t->a, 0, m1 * k1, 1, 0, true);
    return;
  }
  for (uint32_t i = 0; i < m1; i++) load_cbuf_to_ca(l0a + i * k1 * 512, t->a, i, k1, m1, 0, false);
}

static void load_b(rd_npu_core *c, rd_npu_site site, uint64_t l0b, const rdn_cg_term *t,
                   uint32_t k1, uint32_t n1) {
  if (t->b_t) {
    load_cbuf_to_cb(l0b, t->b, 0, n1 * k1, 1, 0, false);
    return;
  }
  for (uint32_t i = 0; i < k1; i++) load_cbuf_to_cb(l0b + i * n1 * 512, t->b, i, n1, k1, 0, true);
}

uint32_t rdn_cg_mad_to_slot(rd_npu_core *c, rd_npu_site site, rdn_cg *w, uint32_t m, uint32_t k,
                            uint32_t n, const rdn_cg_term *terms, uint32_t count) {
  uint32_t slot = w->ring;
  uint64_t acc = L0C(slot * CG_L0C_SLOT);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t a = L0A(w->l0 * CG_L0A_SLOT), b = L0B(w->l0 * CG_L0B_SLOT);
    wait_flag(PIPE_M, PIPE_MTE1, w->l0);
    load_a(c, RD_SITE, a, &terms[i], m / 16, k / 16);
    load_b(c, RD_SITE, b, &terms[i], k / 16, n / 16);
    set_flag(PIPE_MTE1, PIPE_M, w->l0);
    wait_flag(PIPE_MTE1, PIPE_M, w->l0);
    if (i == 0) wait_flag(PIPE_V, PIPE_M, slot);
    /* Small products leave the accumulator pipeline too late for the next one to see them. */
    if (i > 0 && (m / 16) * (n / 16) < 10) pipe_barrier(PIPE_M);
    mad(F32, F16, acc, a, b, m, k, n, i == 0);
    set_flag(PIPE_M, PIPE_MTE1, w->l0);
    w->l0 ^= 1;
  }
  set_flag(PIPE_M, PIPE_V, slot);
  w->ring ^= 1;
  return slot;
}

void rdn_cg_l0c_to_ub(rd_npu_core *c, rd_npu_site site, uint32_t slot, uint32_t ub, uint32_t m,
                      uint32_t n) {
  wait_flag(PIPE_M, PIPE_V, slot);
  copy_matrix_cc_to_ubuf(F32, F32, UB(ub), L0C(slot * CG_L0C_SLOT), 1, (m / 16) * (n / 16), 0, 0);
  set_flag(PIPE_V, PIPE_M, slot);
}

void rdn_cg_split_to_l1(rd_npu_core *c, rd_npu_site site, uint32_t src, uint32_t tmp, uint32_t n,
                        uint32_t l1_hi, uint32_t l1_lo) {
  uint32_t repeat = n / 64, blocks = n / 16;
  wait_flag(PIPE_MTE3, PIPE_V, 0);
  vconv_f322f16(UB(UB_HI), UB(src), repeat, 1, 1, 4, 8);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  copy_ubuf_to_cbuf(L1(l1_hi), UB(UB_HI), 1, blocks, 0, 0);
  set_flag(PIPE_MTE3, PIPE_V, 0);

  pipe_barrier(PIPE_V);
  vconv_f162f32(UB(tmp), UB(UB_HI), repeat, 1, 1, 8, 4);
  pipe_barrier(PIPE_V);
  vsub(F32, UB(tmp), UB(src), UB(tmp), repeat, 1, 1, 1, 8, 8, 8);
  pipe_barrier(PIPE_V);
  wait_flag(PIPE_MTE3, PIPE_V, 1);
  vconv_f322f16(UB(UB_LO), UB(tmp), repeat, 1, 1, 4, 8);
  set_flag(PIPE_V, PIPE_MTE3, 1);
  wait_flag(PIPE_V, PIPE_MTE3, 1);
  copy_ubuf_to_cbuf(L1(l1_lo), UB(UB_LO), 1, blocks, 0, 0);
  set_flag(PIPE_MTE3, PIPE_V, 1);
}

void rdn_cg_store_f16(rd_npu_core *c, rd_npu_site site, uint64_t gm, uint32_t src, uint32_t rows,
                      uint32_t pad, uint32_t strips, uint32_t ld) {
  wait_flag(PIPE_MTE3, PIPE_V, 0);
  vconv_f322f16(UB(UB_HI), UB(src), pad * strips / 4, 1, 1, 4, 8);
  set_flag(PIPE_V, PIPE_MTE3, 0);
  wait_flag(PIPE_V, PIPE_MTE3, 0);
  for (uint32_t s = 0; s < strips; s++)
    copy_ubuf_to_gm(gm + s * 32, UB(UB_HI + s * pad * 32), rows, 1, 0, ld - 1);
  set_flag(PIPE_MTE3, PIPE_V, 0);
}

void rdn_cg_flat(rd_npu_core *c, rd_npu_site site, rdn_cg_vec3 *op, uint32_t dst, uint32_t s0,
                 uint32_t s1, uint32_t n) {
  op(c, RD_SITE, F32, UB(dst), UB(s0), UB(s1), n / 64, 1, 1, 1, 8, 8, 8);
}

void rdn_cg_fill(rd_npu_core *c, rd_npu_site site, uint32_t dst, float x, uint32_t n) {
  vector_dup(F32, UB(dst), x, n / 64, 1, 8);
}

void rdn_cg_widen(rd_npu_core *c, rd_npu_site site, uint32_t dst, uint32_t src, uint32_t n) {
  for (uint32_t done = 0; done < n; done += 128 * 64) {
    uint32_t part = n - done < 128 * 64 ? n - done : 128 * 64;
    vconv_f162f32(UB(dst + done * 4), UB(src + done * 2), part / 64, 1, 1, 8, 4);
  }
}

void rdn_cg_scale_rows(rd_npu_core *c, rd_npu_site site, uint32_t x, uint32_t factor, uint32_t pad,
                       uint32_t strips) {
  for (uint32_t h = 0; h < 2 * strips; h++) {
    uint32_t half = x + (h / 2) * pad * 64 + (h % 2) * 32;
    vmul(F32, UB(half), UB(half), UB(factor), pad / 8, 2, 2, 1, 16, 16, 8);
  }
}
