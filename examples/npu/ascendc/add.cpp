/*
 * A double-buffered addition in Ascend C: z = x + y in half, tiles through queues of two buffers.
 *
 * The kernel is what would be given to the device's compiler (it has never been: no such toolchain was at
 * hand).  MTE2 loads tile t + 1 while V adds tile t and MTE3 stores tile t - 1; the queues' events make that safe.
 * With -DWITHOUT_QUEUE the x tile is used without EnQue and DeQue, so nothing orders Add after the copy.
 * add_main.cpp runs it.
 */
#include "kernel_operator.h"

using namespace AscendC;

constexpr int32_t BUFFERS = 2;
constexpr uint32_t TILE = 256; // elements

class KernelAdd {
public:
  __aicore__ inline KernelAdd() {}
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t perCore) {
    xGm.SetGlobalBuffer((__gm__ half *)x + GetBlockIdx() * perCore, perCore);
    yGm.SetGlobalBuffer((__gm__ half *)y + GetBlockIdx() * perCore, perCore);
    zGm.SetGlobalBuffer((__gm__ half *)z + GetBlockIdx() * perCore, perCore);
    tiles = perCore / TILE;
    pipe.InitBuffer(inX, BUFFERS, TILE * sizeof(half));
    pipe.InitBuffer(inY, BUFFERS, TILE * sizeof(half));
    pipe.InitBuffer(outZ, BUFFERS, TILE * sizeof(half));
  }
  __aicore__ inline void Process() {
    for (uint32_t i = 0; i < tiles; i++) {
      CopyIn(i);
      Compute();
      CopyOut(i);
    }
  }

private:
  __aicore__ inline void CopyIn(uint32_t i) {
    LocalTensor<half> y = inY.AllocTensor<half>();
    DataCopy(y, yGm[i * TILE], TILE);
    inY.EnQue(y); // a later set would cover the copy of x, too
    xLocal = inX.AllocTensor<half>();
    DataCopy(xLocal, xGm[i * TILE], TILE);
#ifndef WITHOUT_QUEUE
    inX.EnQue(xLocal);
#endif
  }
  __aicore__ inline void Compute() {
    LocalTensor<half> y = inY.DeQue<half>();
#ifndef WITHOUT_QUEUE
    xLocal = inX.DeQue<half>();
#endif
    LocalTensor<half> z = outZ.AllocTensor<half>();
    Add(z, xLocal, y, TILE);
    outZ.EnQue<half>(z);
    inX.FreeTensor(xLocal);
    inY.FreeTensor(y);
  }
  __aicore__ inline void CopyOut(uint32_t i) {
    LocalTensor<half> z = outZ.DeQue<half>();
    DataCopy(zGm[i * TILE], z, TILE);
    outZ.FreeTensor(z);
  }

  TPipe pipe;
  TQue<QuePosition::VECIN, BUFFERS> inX, inY;
  TQue<QuePosition::VECOUT, BUFFERS> outZ;
  GlobalTensor<half> xGm, yGm, zGm;
  LocalTensor<half> xLocal;
  uint32_t tiles = 0;
};

extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t perCore) {
  KernelAdd op;
  op.Init(x, y, z, perCore);
  op.Process();
}
