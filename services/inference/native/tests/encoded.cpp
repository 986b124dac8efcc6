// An encoded adapter in a slot, read back; and damaged ones, which are refused or harmless.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "adapters.h"
#include "engine.h"
#include "half.h"
#include "kernels.h"
#include "lora_slots.h"
#include "script.h"

namespace edgelora::check {
namespace {

constexpr int kMaxRank = 64;
constexpr size_t kHeaderBytes = 128;

uint16_t half_at(const uint8_t* data) {
  uint16_t half;
  std::memcpy(&half, data, sizeof half);
  return half;
}

float a_value(const LoraModule& module, int in, int row, int column) {
  const int groups = in / kGroup;
  const uint8_t* group =
      module.a + static_cast<size_t>(row / kLanes * groups + column / kGroup) * kQ8GroupBytes;
  const int lane = row % kLanes;
  const int at = column % kGroup;
  return half_to_float(half_at(group + 2 * lane)) *
         static_cast<float>(group[32 + 64 * (at / 4) + 4 * lane + at % 4] - 128);
}

float b_value(const LoraModule& module, int output, int column) {
  const uint8_t* block =
      module.b + static_cast<size_t>(output / kLanes) * LoraModule::b_block_bytes(module.rank);
  const int lane = output % kLanes;
  return half_to_float(half_at(block + 2 * lane)) *
         static_cast<float>(block[32 + 64 * (column / 4) + 4 * lane + column % 4] - 128);
}

// Ranks that only fill up a block have to read as zeros.
void expect_zeros(const LoraModule& module, int in, int out) {
  for (int row = module.rank; row < (module.rank + kLanes - 1) / kLanes * kLanes; row++)
    for (int i = 0; i < in; i++)
      expect(a_value(module, in, row, i) == 0.0f, "a spare row of A is 0");
  for (int rank = module.rank; rank < (module.rank + 3) / 4 * 4; rank++)
    for (int o = 0; o < out; o++)
      expect(b_value(module, o, rank) == 0.0f, "a spare value of B is 0");
}

}  // namespace

void run_encoded(const std::string& model, const std::string& file, const std::string& output) {
  const PackedFile packed(model);
  const PackedHeader& shape = packed.header();
  const std::vector<uint8_t> bytes = read_bytes(file);
  LoraSlots slots(lora_shape(shape), 2, kMaxRank);
  // The second slot, in memory that holds a larger adapter.
  const Adapter larger(shape, 3, kMaxRank, all_modules());
  slots.load(1, larger.pairs.data(), static_cast<int>(larger.pairs.size()));
  slots.unload(1, true);
  const size_t held = slots.load_encoded(1, bytes.data(), bytes.size());
  expect(held > 0 && held <= slots.bytes() / 2, "it holds no more than a slot");
  std::vector<float> all;
  for (int layer = 0; layer < static_cast<int>(shape.num_layers); layer++) {
    for (const int m : all_modules()) {
      const LoraModule& module = slots.module(1, layer, m);
      if (module.rank == 0) continue;
      const int in = slots.in_features(m);
      const int out = slots.out_features(m);
      all.push_back(module.scaling);
      for (int row = 0; row < module.rank; row++)
        for (int i = 0; i < in; i++) all.push_back(a_value(module, in, row, i));
      for (int o = 0; o < out; o++)
        for (int j = 0; j < module.rank; j++) all.push_back(b_value(module, o, j));
      expect_zeros(module, in, out);
    }
  }
  std::FILE* out = std::fopen(output.c_str(), "wb");
  expect(out != nullptr, "the output can be opened");
  expect(std::fwrite(all.data(), sizeof(float), all.size(), out) == all.size(), "it is written");
  expect(std::fclose(out) == 0, "the output is written");
}

void run_damaged(const std::string& model, const std::string& file) {
  const std::vector<uint8_t> bytes = read_bytes(file);
  const EnginePointer engine = must_open(model, {2, 1, kMaxRank, 4, 1, 0});
  const auto row = [&](std::vector<float>& logits) {
    return forward(engine.get(), {{{1, 2}, 0, {0}, {{0, 1.0f}}}}, logits);
  };
  std::vector<float> logits;
  const auto try_load = [&](const std::vector<uint8_t>& changed) {
    if (!load_encoded(engine.get(), 0, changed).empty()) {
      expect(row(logits).find("holds nothing") != std::string::npos, "a refused slot stays empty");
      return false;
    }
    must(row(logits));
    must(unload(engine.get(), 0));
    return true;
  };
  expect(try_load(bytes), "the file itself is in order");
  uint32_t num_modules, num_components, num_codebooks;
  std::memcpy(&num_modules, bytes.data() + 12, sizeof num_modules);
  std::memcpy(&num_components, bytes.data() + 16, sizeof num_components);
  std::memcpy(&num_codebooks, bytes.data() + 20, sizeof num_codebooks);
  const size_t described = kHeaderBytes + size_t{20} * num_modules +
                           size_t{4} * (size_t{num_components} + num_codebooks);
  for (size_t at = 0; at < described; at++) {
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<uint8_t> changed = bytes;
      changed[at] = static_cast<uint8_t>(value);
      try_load(changed);
    }
  }
  for (size_t size = 0; size < bytes.size(); size += size < described ? 1 : 997) {
    const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(size);
    const std::vector<uint8_t> cut(bytes.begin(), end);
    expect(!try_load(cut), "a cut file is refused");
    // The length it says is the one it has.
    std::vector<uint8_t> consistent = cut;
    const uint64_t length = size;
    if (size >= kHeaderBytes) std::memcpy(consistent.data() + 24, &length, sizeof length);
    expect(!try_load(consistent), "a short file is refused");
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  expect(!try_load(longer), "a longer file is refused");
  for (const int32_t slot : {-1, 1})
    expect(!load_encoded(engine.get(), slot, bytes).empty(), "there is one slot");
  must(load_encoded(engine.get(), 0, bytes));
  expect(load_encoded(engine.get(), 0, bytes).find("taken") != std::string::npos,
         "a slot is filled once");
  const EnginePointer small = must_open(model, {2, 1, 1, 4, 1, 0});
  expect(load_encoded(small.get(), 0, bytes).find("rank") != std::string::npos,
         "ranks are bounded");
}

}  // namespace edgelora::check
