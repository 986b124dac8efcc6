#include "adapters.h"

#include "engine.h"

#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace edgelora::check {
namespace {

constexpr size_t kErrorSize = 256;

}  // namespace

uint32_t Numbers::below(uint32_t bound) {
  state_ = state_ * 1664525u + 1013904223u;
  return (state_ >> 8) % bound;
}

std::vector<float> Numbers::floats(size_t count, float scale) {
  std::vector<float> values(count);
  for (float& value : values)
    value = (static_cast<float>(below(1u << 17)) / 65536.0f - 1.0f) * scale;
  return values;
}

std::pair<int, int> sizes_of(const PackedHeader& shape, int module) {
  const auto hidden = static_cast<int>(shape.hidden_size);
  const auto query = static_cast<int>(shape.num_heads * shape.head_size);
  const auto kv = static_cast<int>(shape.num_kv_heads * shape.head_size);
  const auto inner = static_cast<int>(shape.feed_forward_size);
  switch (module) {
    case EL_Q:
      return {query, hidden};
    case EL_O:
      return {hidden, query};
    case EL_GATE:
    case EL_UP:
      return {inner, hidden};
    case EL_DOWN:
      return {hidden, inner};
    default:
      return {kv, hidden};
  }
}

Adapter::Adapter(const PackedHeader& shape, uint32_t seed, int rank,
                 const std::vector<int>& modules)
    : Adapter(lora_shape(shape), seed, rank, modules) {}

Adapter::Adapter(const LoraShape& shape, uint32_t seed, int rank,
                 const std::vector<int>& modules) {
  Numbers numbers(seed);
  for (int layer = 0; layer < shape.num_layers; layer++) {
    for (const int module : modules) {
      const auto [out, in] = shape.modules[static_cast<size_t>(module)];
      factors_.push_back(numbers.floats(static_cast<size_t>(rank) * static_cast<size_t>(in), 0.2f));
      const float* a = factors_.back().data();
      factors_.push_back(
          numbers.floats(static_cast<size_t>(rank) * static_cast<size_t>(out), 0.2f));
      pairs.push_back({layer, module, rank, in, out, 1.5f, a, factors_.back().data()});
    }
  }
}

std::vector<int> all_modules() { return {EL_Q, EL_K, EL_V, EL_O, EL_GATE, EL_UP, EL_DOWN}; }

std::vector<int32_t> blocks(int32_t first, int32_t count) {
  std::vector<int32_t> list(static_cast<size_t>(count));
  std::iota(list.begin(), list.end(), first);
  return list;
}

Batch::Batch(const std::vector<Chunk>& chunks) {
  const auto end = [](const auto& list) { return static_cast<int32_t>(list.size()); };
  for (const Chunk& chunk : chunks) {
    token_ids.insert(token_ids.end(), chunk.tokens.begin(), chunk.tokens.end());
    token_offsets.push_back(end(token_ids));
    starts.push_back(chunk.start);
    block_tables.insert(block_tables.end(), chunk.blocks.begin(), chunk.blocks.end());
    block_offsets.push_back(end(block_tables));
    for (const auto& [slot, weight] : chunk.adapters) {
      slots.push_back(slot);
      weights.push_back(weight);
    }
    adapter_offsets.push_back(end(slots));
    needs_logits.push_back(chunk.needs_logits ? 1 : 0);
  }
}

el_batch Batch::view() const {
  return {static_cast<int32_t>(starts.size()),
          token_ids.data(),
          token_offsets.data(),
          starts.data(),
          block_tables.data(),
          block_offsets.data(),
          slots.data(),
          weights.data(),
          adapter_offsets.data(),
          needs_logits.data()};
}

EnginePointer open(const std::string& path, const el_limits& limits, Refusal& refusal) {
  char error[kErrorSize] = "";
  EnginePointer engine(el_open(path.c_str(), &limits, error, sizeof error));
  refusal = error;
  return engine;
}

Refusal load(el_engine* engine, int32_t slot, const std::vector<el_lora_pair>& pairs) {
  char error[kErrorSize] = "";
  const int64_t bytes = el_load_adapter(engine, slot, pairs.data(),
                                        static_cast<int32_t>(pairs.size()), error, sizeof error);
  expect((bytes < 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

Refusal load_encoded(el_engine* engine, int32_t slot, const std::vector<uint8_t>& file) {
  char error[kErrorSize] = "";
  const int64_t bytes =
      el_load_encoded(engine, slot, file.data(), file.size(), error, sizeof error);
  expect((bytes < 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

Refusal unload(el_engine* engine, int32_t slot, bool keep_pages) {
  char error[kErrorSize] = "";
  const int status = el_unload_adapter(engine, slot, keep_pages ? 1 : 0, error, sizeof error);
  expect((status != 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

Refusal set_threads(el_engine* engine, int32_t count) {
  char error[kErrorSize] = "";
  const int status = el_set_threads(engine, count, error, sizeof error);
  expect((status != 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

Refusal forward(el_engine* engine, const std::vector<Chunk>& chunks, std::vector<float>& logits) {
  const Batch batch(chunks);
  size_t rows = 0;
  for (const Chunk& chunk : chunks) rows += chunk.needs_logits ? 1 : 0;
  logits.assign(rows * static_cast<size_t>(el_describe(engine).vocab_size), 0.0f);
  char error[kErrorSize] = "";
  const el_batch view = batch.view();
  const int status = el_forward(engine, &view, logits.data(), error, sizeof error);
  expect((status != 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

EnginePointer must_open(const std::string& path, const el_limits& limits) {
  Refusal refusal;
  EnginePointer engine = open(path, limits, refusal);
  must(refusal);
  return engine;
}

void must(const Refusal& refusal) { expect(refusal.empty(), refusal); }

std::vector<float> must_forward(el_engine* engine, const std::vector<Chunk>& chunks) {
  std::vector<float> logits;
  must(forward(engine, chunks, logits));
  return logits;
}

std::vector<uint8_t> read_bytes(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  expect(file != nullptr, "the file can be opened");
  std::vector<uint8_t> bytes;
  uint8_t part[4096];
  for (size_t count = 0; (count = std::fread(part, 1, sizeof part, file)) > 0;)
    bytes.insert(bytes.end(), part, part + count);
  expect(std::fclose(file) == 0, "the file is read");
  return bytes;
}

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  std::abort();
}

}  // namespace edgelora::check
