// The C interface of the encoder: exceptions end here.
#include "edgelora_encoder.h"
#include "encoder.h"
#include "error.h"
#include "guarded.h"

using edgelora::guarded;

struct el_encoder {
  el_encoder(const char* path, const el_encoder_limits& limits) : encoder(path, limits) {}
  edgelora::Encoder encoder;
};

extern "C" {

el_encoder* el_encoder_open(const char* packed_file, const el_encoder_limits* limits, char* error,
                            size_t error_size) {
  el_encoder* encoder = nullptr;
  guarded(error, error_size, [&] {
    edgelora::require(packed_file != nullptr && limits != nullptr,
                      "el_encoder_open needs a file and limits");
    encoder = new el_encoder(packed_file, *limits);
  });
  return encoder;
}

void el_encoder_close(el_encoder* encoder) { delete encoder; }

el_encoder_description el_encoder_describe(const el_encoder* encoder) {
  return encoder->encoder.describe();
}

int64_t el_encoder_load(el_encoder* encoder, int32_t slot, const el_lora_pair* pairs,
                        int32_t num_pairs, char* error, size_t error_size) {
  size_t bytes = 0;
  const int status = guarded(
      error, error_size, [&] { bytes = encoder->encoder.slots().load(slot, pairs, num_pairs); });
  return status == 0 ? static_cast<int64_t>(bytes) : status;
}

int el_encoder_unload(el_encoder* encoder, int32_t slot, char* error, size_t error_size) {
  return guarded(error, error_size, [&] { encoder->encoder.slots().unload(slot); });
}

int el_encode(el_encoder* encoder, const el_texts* texts, float* vectors, char* error,
              size_t error_size) {
  return guarded(error, error_size, [&] { encoder->encoder.encode(*texts, vectors); });
}
}
