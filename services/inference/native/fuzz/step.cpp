// The bytes are calls with any arguments: adapters come and go, batches run or are refused.
// EDGELORA_FUZZ_MODEL names the packed model. Logits of a row are all finite or all NaN.
#include <cmath>
#include <cstdlib>
#include <string>

#include "../tests/adapters.h"
#include "bytes.h"

namespace {

using namespace edgelora::check;
using edgelora::fuzz::Bytes;

constexpr el_limits kLimits{6, 2, 18, 24, 1, 0};

const char* model_path() {
  const char* path = std::getenv("EDGELORA_FUZZ_MODEL");
  expect(path != nullptr, "EDGELORA_FUZZ_MODEL names the packed model");
  return path;
}

struct Model {
  edgelora::PackedFile file{model_path()};
  EnginePointer engine = must_open(model_path(), kLimits);
};

void load_something(Model& model, Bytes& bytes) {
  const auto slot = bytes.take<int8_t>();
  std::vector<el_lora_pair> pairs(bytes.take<uint8_t>() % 5);
  std::vector<std::vector<float>> factors;
  for (el_lora_pair& pair : pairs) {
    pair.layer = bytes.take<int8_t>();
    pair.module = bytes.take<int8_t>();
    pair.rank = bytes.take<int8_t>();
    pair.scaling = bytes.take<float>();
    const auto [out, in] = sizes_of(model.file.header(), pair.module);
    pair.in_features = in;
    pair.out_features = out;
    const auto rank = static_cast<size_t>(std::abs(pair.rank));
    for (const int size : {in, out}) {
      // A few values from the bytes, again and again.
      const float pattern[] = {bytes.take<float>(), bytes.take<float>(), bytes.take<float>()};
      factors.emplace_back(rank * static_cast<size_t>(size));
      for (size_t i = 0; i < factors.back().size(); i++) factors.back()[i] = pattern[i % 3];
    }
    pair.lora_a = factors[factors.size() - 2].data();
    pair.lora_b = factors[factors.size() - 1].data();
  }
  load(model.engine.get(), slot, pairs);
}

Chunk chunk(Bytes& bytes) {
  Chunk chunk{};
  for (auto left = bytes.take<uint8_t>() % 20; left > 0; left--)
    chunk.tokens.push_back(bytes.take<int8_t>());
  chunk.start = bytes.take<int8_t>();
  for (auto left = bytes.take<uint8_t>() % 6; left > 0; left--)
    chunk.blocks.push_back(bytes.take<int8_t>());
  for (auto left = bytes.take<uint8_t>() % 4; left > 0; left--) {
    const auto slot = bytes.take<int8_t>();
    chunk.adapters.emplace_back(slot, bytes.take<float>());
  }
  chunk.needs_logits = bytes.take<uint8_t>() % 2 != 0;
  return chunk;
}

// Offsets may be anything as long as they stay within the arrays, whose length the core trusts.
void disturb(std::vector<int32_t>& offsets, Bytes& bytes) {
  const size_t at = bytes.take<uint8_t>() % offsets.size();
  offsets[at] = std::min(bytes.take<int32_t>(), offsets.back());
}

void run_something(Model& model, Bytes& bytes) {
  std::vector<Chunk> chunks(bytes.take<uint8_t>() % 5);
  for (Chunk& each : chunks) each = chunk(bytes);
  Batch batch(chunks);
  const auto choice = bytes.take<uint8_t>() % 16;
  if (choice == 1) disturb(batch.token_offsets, bytes);
  if (choice == 2) disturb(batch.block_offsets, bytes);
  if (choice == 3) disturb(batch.adapter_offsets, bytes);
  const el_batch view = batch.view();
  const size_t vocab = model.file.header().vocab_size;
  std::vector<float> logits(chunks.size() * vocab, 0.0f);
  char error[256] = "";
  const int status = el_forward(model.engine.get(), &view, logits.data(), error, sizeof error);
  expect((status != 0) == (error[0] != '\0'), "a refusal has a status and a text");
  for (size_t row = 0; row < chunks.size(); row++) {
    size_t finite = 0;
    for (size_t i = 0; i < vocab; i++) finite += std::isfinite(logits[row * vocab + i]) ? 1 : 0;
    expect(finite == 0 || finite == vocab, "a row is finite or all NaN");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Model model;
  for (int32_t slot = 0; slot < kLimits.max_loras; slot++) must(unload(model.engine.get(), slot));
  Bytes bytes(data, size);
  while (!bytes.is_empty()) {
    switch (bytes.take<uint8_t>() % 3) {
      case 0:
        load_something(model, bytes);
        break;
      case 1:
        unload(model.engine.get(), bytes.take<int8_t>());
        break;
      default:
        run_something(model, bytes);
    }
  }
  return 0;
}
