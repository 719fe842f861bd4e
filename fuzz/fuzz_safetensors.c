/* The safetensors reader on any bytes: refuse, or give tensors that cover the data exactly. */
#include "fuzz.h"
#include "io/io.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  io_file file = {0};
  io_error err = {{0}};
  io_status status = io_safetensors_parse(data, size, &file, &err);
  FUZZ_MUST(status == IO_OK || status == IO_BAD);
  if (status == IO_BAD) {
    FUZZ_MUST(file.tensors == NULL && file.count == 0 && err.text[0] != '\0');
    return 0;
  }
  uint64_t header = 0, total = 0;
  for (int i = 7; i >= 0; i--) header = header << 8 | data[i];
  unsigned sum = 0;
  for (size_t i = 0; i < file.count; i++) {
    const io_tensor *t = &file.tensors[i];
    char text[128];
    uint64_t elements = 1;
    for (int32_t d = 0; d < t->rank; d++) elements *= (uint64_t)t->shape[d];
    FUZZ_MUST(t->dtype->size == 0 || t->bytes == elements * t->dtype->size);
    FUZZ_MUST((uintptr_t)t->data % IO_ALIGN == 0);
    for (uint64_t b = 0; b < t->bytes; b++) sum += ((const uint8_t *)t->data)[b];
    total += t->bytes;
    io_tensor_describe(t, text, sizeof text);
    FUZZ_MUST(io_file_find(&file, t->name) == t);
    rd_tensor view;
    FUZZ_MUST(io_tensor_view(t, &view, &err) == IO_OK || view.dtype == RD_ABSENT);
  }
  unsigned expected = 0;
  for (size_t i = (size_t)(8 + header); i < size; i++) expected += data[i];
  FUZZ_MUST(total == size - 8 - header && sum == expected);
  io_file_free(&file);
  return 0;
}
