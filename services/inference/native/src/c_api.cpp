// The C interface: exceptions end here.
#include "edgelora_native.h"
#include "engine.h"
#include "error.h"
#include "guarded.h"

struct el_engine {
  el_engine(const char* path, const el_limits& limits) : engine(path, limits) {}
  edgelora::Engine engine;
};

using edgelora::guarded;

extern "C" {

const char* el_instruction_set(char* error, size_t error_size) {
  const char* name = nullptr;
  guarded(error, error_size, [&] { name = edgelora::choose_kernels().name; });
  return name;
}

el_engine* el_open(const char* packed_file, const el_limits* limits, char* error,
                   size_t error_size) {
  el_engine* engine = nullptr;
  guarded(error, error_size, [&] {
    edgelora::require(packed_file != nullptr && limits != nullptr,
                      "el_open needs a file and limits");
    engine = new el_engine(packed_file, *limits);
  });
  return engine;
}

void el_close(el_engine* engine) { delete engine; }

el_description el_describe(const el_engine* engine) { return engine->engine.describe(); }

int64_t el_load_adapter(el_engine* engine, int32_t slot, const el_lora_pair* pairs,
                        int32_t num_pairs, char* error, size_t error_size) {
  size_t bytes = 0;
  const int status = guarded(
      error, error_size, [&] { bytes = engine->engine.slots().load(slot, pairs, num_pairs); });
  return status == 0 ? static_cast<int64_t>(bytes) : status;
}

int64_t el_load_encoded(el_engine* engine, int32_t slot, const uint8_t* data, size_t size,
                        char* error, size_t error_size) {
  size_t bytes = 0;
  const int status = guarded(
      error, error_size, [&] { bytes = engine->engine.slots().load_encoded(slot, data, size); });
  return status == 0 ? static_cast<int64_t>(bytes) : status;
}

int el_unload_adapter(el_engine* engine, int32_t slot, int32_t keep_pages, char* error,
                      size_t error_size) {
  return guarded(error, error_size,
                 [&] { engine->engine.slots().unload(slot, keep_pages != 0); });
}

int el_set_threads(el_engine* engine, int32_t num_threads, char* error, size_t error_size) {
  return guarded(error, error_size, [&] { engine->engine.set_threads(num_threads); });
}

int el_forward(el_engine* engine, const el_batch* batch, float* logits, char* error,
               size_t error_size) {
  return guarded(error, error_size, [&] { engine->engine.forward(*batch, logits); });
}

int el_sample(el_engine* engine, const el_sampling* sampling, char* error, size_t error_size) {
  return guarded(error, error_size, [&] { engine->engine.sample(*sampling); });
}
}
