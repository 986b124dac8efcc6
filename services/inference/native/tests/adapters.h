// Deterministic adapters and batches for the programs that check the core.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "edgelora_native.h"
#include "lora_slots.h"
#include "packed_file.h"

namespace edgelora::check {

// The same numbers on every machine: multiples of 2^-16 times `scale`, in (-scale, scale).
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed * 2u + 1u) {}
  uint32_t below(uint32_t bound);
  std::vector<float> floats(size_t count, float scale);

 private:
  uint32_t state_;
};

// Outputs and inputs of a module.
std::pair<int, int> sizes_of(const PackedHeader& shape, int module);

// Random factors of one rank for the given modules of every layer.
class Adapter {
 public:
  Adapter(const LoraShape& shape, uint32_t seed, int rank, const std::vector<int>& modules);
  Adapter(const PackedHeader& shape, uint32_t seed, int rank, const std::vector<int>& modules);

  std::vector<el_lora_pair> pairs;

 private:
  std::vector<std::vector<float>> factors_;
};

std::vector<int> all_modules();

// The tokens of one sequence that run in a step.
struct Chunk {
  std::vector<int32_t> tokens;
  int32_t start;
  std::vector<int32_t> blocks;
  std::vector<std::pair<int32_t, float>> adapters;
  bool needs_logits = true;
};

// The blocks [first, first + count).
std::vector<int32_t> blocks(int32_t first, int32_t count);

// A step in the form of the C interface.
struct Batch {
  explicit Batch(const std::vector<Chunk>& chunks);
  el_batch view() const;

  std::vector<int32_t> token_ids, token_offsets{0}, starts, block_tables, block_offsets{0}, slots,
      adapter_offsets{0};
  std::vector<float> weights;
  std::vector<uint8_t> needs_logits;
};

struct Close {
  void operator()(el_engine* engine) const { el_close(engine); }
};
using EnginePointer = std::unique_ptr<el_engine, Close>;

// What the core said when it refused; empty when it did not.
using Refusal = std::string;

EnginePointer open(const std::string& path, const el_limits& limits, Refusal& refusal);
Refusal load(el_engine* engine, int32_t slot, const std::vector<el_lora_pair>& pairs);
Refusal load_encoded(el_engine* engine, int32_t slot, const std::vector<uint8_t>& file);
Refusal unload(el_engine* engine, int32_t slot, bool keep_pages = false);
Refusal set_threads(el_engine* engine, int32_t count);
Refusal forward(el_engine* engine, const std::vector<Chunk>& chunks, std::vector<float>& logits);

// The same, where a refusal ends the program.
EnginePointer must_open(const std::string& path, const el_limits& limits);
void must(const Refusal& refusal);
std::vector<float> must_forward(el_engine* engine, const std::vector<Chunk>& chunks);

// A whole file.
std::vector<uint8_t> read_bytes(const std::string& path);

// Aborts the program unless it holds.
void expect(bool holds, const std::string& what);

}  // namespace edgelora::check
