// A fixed run of prefill, chunks and mixed decoding with adapters, for comparing instruction sets.
#include "script.h"

#include <cstdio>

#include "adapters.h"

namespace edgelora::check {
namespace {

constexpr int kDecodeSteps = 12;

std::vector<int32_t> tokens(Numbers& numbers, const PackedHeader& shape, size_t count) {
  std::vector<int32_t> ids(count);
  for (int32_t& id : ids) id = static_cast<int32_t>(numbers.below(shape.vocab_size));
  return ids;
}

void run_steps(const std::string& model, int32_t kv_cache_int8, std::vector<float>& all) {
  const PackedFile file(model);
  const PackedHeader& shape = file.header();
  const EnginePointer engine = must_open(model, {24, 3, 20, 96, 2, kv_cache_int8});
  must(load(engine.get(), 0, Adapter(shape, 1, 5, all_modules()).pairs));
  must(load(engine.get(), 1, Adapter(shape, 2, 20, all_modules()).pairs));
  must(load(engine.get(), 2, Adapter(shape, 3, 1, {EL_Q, EL_V}).pairs));

  Numbers numbers(7);
  const auto step = [&](const std::vector<Chunk>& chunks) {
    const std::vector<float> logits = must_forward(engine.get(), chunks);
    all.insert(all.end(), logits.begin(), logits.end());
  };
  const std::vector<int32_t> table = blocks(0, 4);
  const std::vector<int32_t> other = blocks(4, 4);
  const std::vector<int32_t> base = blocks(8, 4);
  step({{tokens(numbers, shape, 37), 0, table, {{0, 0.5f}, {1, 1.25f}}}});
  step({{tokens(numbers, shape, 20), 0, base, {}, false},
        {tokens(numbers, shape, 3), 0, other, {{2, 1.0f}}}});
  step({{tokens(numbers, shape, 9), 20, base, {}}, {tokens(numbers, shape, 30), 3, other, {{2, -1.0f}}}});
  for (int32_t i = 0; i < kDecodeSteps; i++) {
    const std::vector<int32_t> next = tokens(numbers, shape, 3);
    step({{{next[0]}, 37 + i, table, {{0, 0.5f}, {1, 1.25f}}},
          // The second weight makes products too small for an 8-bit step's inverse.
          {{next[1]}, 33 + i, other, {{1, 1.0f}, {0, 1e-37f}}},
          {{next[2]}, 29 + i, base, {}}});
  }
}

}  // namespace

void run_script(const std::string& model, const std::string& output) {
  std::vector<float> all;
  for (const int32_t kv_cache_int8 : {0, 1}) run_steps(model, kv_cache_int8, all);

  std::FILE* out = std::fopen(output.c_str(), "wb");
  expect(out != nullptr, "the output can be opened");
  expect(std::fwrite(all.data(), sizeof(float), all.size(), out) == all.size(), "it is written");
  expect(std::fclose(out) == 0, "the output is written");
}

}  // namespace edgelora::check
