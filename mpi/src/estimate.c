/* Estimates of both forms; docs/SCALE.md has the formulas. */
#include <math.h>

#include "redelta/mpi.h"

rd_status rd_mpi_estimate(const rd_mpi_model *in, rd_mpi_estimates *out) {
  if (!in || !out) return RD_E_NULL;
  if (in->ranks < 1 || in->tokens < 0 || in->layers < 1 || in->heads < 1 || in->K < 1 ||
      in->V < 1 || in->items < 1 || !(in->seconds_per_token > 0) || !(in->latency >= 0) ||
      !(in->bytes_per_second > 0) || !(in->products_per_second > 0))
    return RD_E_SHAPE;
  const double P = (double)in->ranks, L = (double)in->layers, H = (double)in->heads;
  const double K = (double)in->K, V = (double)in->V, I = (double)in->items * L;
  const double work = (double)in->tokens * H * in->seconds_per_token; /* one layer, one rank */
  out->one_rank = L * work;

  /* Pipeline: the slower of computing an item and sending it sets the pace of I + P - 1 places; a state
   * on its way adds to the filling only. */
  const double item = L * work / P / I;
  const double wire = in->latency + 4 * V * K * H * L / I / in->bytes_per_second;
  out->pipeline = I * fmax(item, wire) + (P - 1) * (item + wire);
  if (in->ranks == 1) out->pipeline = out->one_rank;

  /* Scan: the segment from zero, its transition (K rows instead of V), the real pass, log2 P steps. */
  const double steps = ceil(log2(P));
  const double element = 4 * (K * K + V * K) * H;
  const double step = in->latency + element / in->bytes_per_second +
                      H * (K * K * K + V * K * K) / in->products_per_second;
  out->scan = L * (work / P * (2 + K / V) + steps * step);
  if (in->ranks == 1) out->scan = out->one_rank;

  out->pipeline_efficiency = out->one_rank > 0 ? out->one_rank / (P * out->pipeline) : 1;
  out->scan_efficiency = out->one_rank > 0 ? out->one_rank / (P * out->scan) : 1;
  return RD_OK;
}
