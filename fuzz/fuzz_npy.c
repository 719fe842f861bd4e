/* The npy reader on any bytes: refuse, or give one tensor that is the end of the file. */
#include "fuzz.h"
#include "io/io.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  io_file file = {0};
  io_error err = {{0}};
  io_status status = io_npy_parse(data, size, "x", &file, &err);
  FUZZ_MUST(status == IO_OK || status == IO_BAD);
  if (status == IO_BAD) {
    FUZZ_MUST(file.tensors == NULL && file.count == 0 && err.text[0] != '\0');
    return 0;
  }
  const io_tensor *t = &file.tensors[0];
  FUZZ_MUST(file.count == 1 && t->bytes < size);
  FUZZ_MUST(t->bytes == 0 || memcmp(t->data, data + size - t->bytes, (size_t)t->bytes) == 0);
  io_file_free(&file);
  return 0;
}
