// Values that leave the finite numbers: the row says so, and nobody else notices.
#include <cmath>

#include "adapters.h"
#include "script.h"

namespace edgelora::check {
namespace {

void overflow_with(const std::string& model, int32_t kv_cache_int8) {
  const PackedFile file(model);
  const PackedHeader& shape = file.header();
  const EnginePointer engine = must_open(model, {4, 1, 4, 32, 2, kv_cache_int8});
  const Chunk plain{{1, 2, 3, 4, 5}, 0, {0}, {}};
  const std::vector<float> expected = must_forward(engine.get(), {plain});
  for (const float logit : expected) expect(std::isfinite(logit), "the logits are finite");
  for (const int module : all_modules()) {
    for (const float scaling : {3e38f, -3e38f}) {
      Adapter adapter(shape, 9, 4, {module});
      for (el_lora_pair& pair : adapter.pairs) pair.scaling = scaling;
      must(load(engine.get(), 0, adapter.pairs));
      const std::string name = "module " + std::to_string(module);
      const Chunk bad{{5, 6, 7, 8, 9, 10}, 0, {1}, {{0, 100.0f}}};
      const std::vector<float> both = must_forward(engine.get(), {plain, bad});
      for (size_t i = 0; i < expected.size(); i++) {
        expect(both[i] == expected[i], name + ": the other row is as ever");
        expect(std::isnan(both[expected.size() + i]), name + ": the row is all NaN");
      }
      must(unload(engine.get(), 0));
      // The same block again: what the bad row left in it is not read.
      const Chunk after{plain.tokens, 0, {1}, {}};
      expect(must_forward(engine.get(), {after}) == expected, name + ": its block is as good");
    }
  }
}

}  // namespace

void run_overflow(const std::string& model) {
  for (const int32_t kv_cache_int8 : {0, 1}) overflow_with(model, kv_cache_int8);
}

}  // namespace edgelora::check
