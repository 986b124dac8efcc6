#include "lora_slots.h"

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "error.h"
#include "half.h"
#include "kernels.h"

namespace edgelora {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;
// Factors start on their own cache line.
constexpr size_t kAlignment = 64;

// The largest factor whose scale is a finite half.
constexpr float kLargestFactor = 65504.0f * 127.0f;

bool all_fit(const float* x, size_t count) {
  bool fit = true;
  for (size_t i = 0; i < count; i++) fit &= std::fabs(x[i]) <= kLargestFactor;
  return fit;
}

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

float largest_magnitude(const float* x, int count) {
  // As integers, magnitudes keep their order; and compilers turn the loop into vectors.
  int32_t largest = 0;
  for (int i = 0; i < count; i++) {
    int32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof magnitude);
  return magnitude;
}

// The half-precision scale that brings the largest of some factors to 127.
uint16_t scale_of(const float* x, int count) {
  return float_to_half(largest_magnitude(x, count) / 127.0f);
}

// Rounds x / scale to the nearest integers, halves to even, and adds 128.
void to_bytes(const float* x, int count, uint16_t scale, uint8_t* bytes) {
  const float step = half_to_float(scale);
  const float inverse = step > 0.0f ? 1.0f / step : 0.0f;
  // Added to a small number it leaves the nearest integer in the low bits of the sum.
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
  constexpr int32_t kRounderBits = 0x4b400000;
  for (int i = 0; i < count; i++) {
    const float shifted = x[i] * inverse + kRounder;
    int32_t value;
    std::memcpy(&value, &shifted, sizeof value);
    value -= kRounderBits;
    value = value < -127 ? -127 : value;
    bytes[i] = static_cast<uint8_t>((value > 127 ? 127 : value) + 128);
  }
}

// Row `row` of A into its block.
void write_a_row(const float* x, int in, int row, uint8_t* a) {
  const int groups = in / kGroup;
  uint8_t* group = a + static_cast<size_t>(row / kLanes * groups) * kQ8GroupBytes;
  const int lane = row % kLanes;
  for (int g = 0; g < groups; g++, group += kQ8GroupBytes, x += kGroup) {
    const uint16_t scale = scale_of(x, kGroup);
    std::memcpy(group + 2 * lane, &scale, sizeof scale);
    uint8_t bytes[kGroup];
    to_bytes(x, kGroup, scale, bytes);
    for (int i = 0; i < kGroup; i += 4)
      std::memcpy(group + 32 + 16 * i + 4 * lane, bytes + i, 4);
  }
}

// Output `o` of B, [rank] values, into its block.
void write_b_row(const float* x, int rank, int o, uint8_t* b) {
  uint8_t* block = b + static_cast<size_t>(o / kLanes) * LoraModule::b_block_bytes(rank);
  const int lane = o % kLanes;
  const uint16_t scale = scale_of(x, rank);
  std::memcpy(block + 2 * lane, &scale, sizeof scale);
  for (int j = 0; j < rank; j += 4) {
    uint8_t four[4] = {128, 128, 128, 128};  // zeros beyond the rank
    to_bytes(x + j, rank - j < 4 ? rank - j : 4, scale, four);
    std::memcpy(block + 32 + 16 * j + 4 * lane, four, sizeof four);
  }
}

}  // namespace

LoraSlots::LoraSlots(LoraShape shape, int max_loras, int max_rank)
    : shape_(std::move(shape)),
      num_layers_(static_cast<size_t>(shape_.num_layers)),
      max_loras_(max_loras),
      max_rank_(max_rank),
      modules_(static_cast<size_t>(max_loras) * num_layers_ * shape_.modules.size()),
      touched_bytes_(static_cast<size_t>(max_loras)),
      guards_(std::make_unique<Guard[]>(static_cast<size_t>(max_loras))) {
  for (int m = 0; m < num_modules(); m++)
    slot_bytes_ += a_bytes(max_rank, in_features(m)) + b_bytes(max_rank, out_features(m));
  slot_bytes_ *= num_layers_;
  slot_bytes_ = (slot_bytes_ + kLargePage - 1) / kLargePage * kLargePage;
  if (max_loras == 0) return;
  // Reserved now, touched only as far as the loaded ranks need it.
  mapped_ = ::mmap(nullptr, bytes() + kLargePage, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped_ == MAP_FAILED) throw Error("cannot reserve memory for the adapter slots");
  // Every step streams through the slots in use: large pages spare most address look-ups. A slot
  // starts on one, or emptying it would break the page it shares into small ones.
  size_t room = bytes() + kLargePage;
  void* start = mapped_;
  memory_ = static_cast<uint8_t*>(std::align(kLargePage, bytes(), start, room));
  ::madvise(memory_, bytes(), MADV_HUGEPAGE);
}

LoraSlots::~LoraSlots() {
  if (memory_ != nullptr) ::munmap(mapped_, bytes() + kLargePage);
}

size_t LoraSlots::a_bytes(int rank, int in) {
  const int blocks = (rank + kLanes - 1) / kLanes;
  return aligned(static_cast<size_t>(blocks * (in / kGroup)) * kQ8GroupBytes);
}

size_t LoraSlots::b_bytes(int rank, int out) {
  return aligned(static_cast<size_t>(out / kLanes) * LoraModule::b_block_bytes(rank));
}

bool LoraSlots::hold(int slot) {
  guard(slot).holders.fetch_add(1);
  if (guard(slot).state.load() == kLoaded) return true;
  release(slot);
  return false;
}

void LoraSlots::release(int slot) { guard(slot).holders.fetch_sub(1); }

void LoraSlots::check_pairs(const el_lora_pair* pairs, int num_pairs) const {
  require(num_pairs > 0 && pairs != nullptr, "an adapter needs at least one module");
  std::vector<bool> seen(num_layers_ * shape_.modules.size(), false);
  for (int i = 0; i < num_pairs; i++) {
    const el_lora_pair& pair = pairs[i];
    require(pair.layer >= 0 && static_cast<size_t>(pair.layer) < num_layers_ && pair.module >= 0 &&
                pair.module < num_modules(),
            "an adapter module is out of range");
    require(pair.rank >= 1 && pair.rank <= max_rank_, "an adapter module's rank is out of range");
    require(pair.in_features == in_features(pair.module) &&
                pair.out_features == out_features(pair.module),
            "an adapter module's factors do not have the model's sizes");
    require(std::isfinite(pair.scaling), "an adapter module's scaling is not finite");
    require(pair.lora_a != nullptr && pair.lora_b != nullptr, "an adapter factor is missing");
    const size_t at = index(0, pair.layer, pair.module);
    require(!seen[at], "an adapter module is given twice");
    seen[at] = true;
    const auto rank = static_cast<size_t>(pair.rank);
    bool fit = all_fit(pair.lora_b, rank * static_cast<size_t>(out_features(pair.module)));
    std::vector<float> row;
    for (int j = 0; j < pair.rank; j++) {
      read_a_row(pair, j, row);
      fit &= all_fit(row.data(), row.size());
    }
    require(fit, "an adapter factor is not finite, or too large for half precision");
  }
}

void LoraSlots::read_a_row(const el_lora_pair& pair, int row, std::vector<float>& out) const {
  const auto in = static_cast<size_t>(in_features(pair.module));
  const float* values = pair.lora_a + static_cast<size_t>(row) * in;
  out.assign(values, values + in);
  if (shape_.input_factors.empty()) return;
  const float* factors = shape_.input_factors[index(0, pair.layer, pair.module)];
  if (factors == nullptr) return;
  for (size_t i = 0; i < in; i++) out[i] /= factors[i];
}

void LoraSlots::check_fit(const EncodedModule& module) const {
  require(static_cast<size_t>(module.layer) < num_layers_ && module.module < num_modules(),
          "an adapter module is out of range");
  require(module.components.size() <= static_cast<size_t>(max_rank_),
          "an adapter module's rank is out of range");
  require(module.in == in_features(module.module) && module.out == out_features(module.module),
          "an adapter module's factors do not have the model's sizes");
}

void LoraSlots::begin_load(int slot) {
  int expected = kEmpty;
  require(guard(slot).state.compare_exchange_strong(expected, kChanging),
          "the adapter slot is taken");
}

LoraModule& LoraSlots::place(int slot, int layer, int module, int rank, float scaling,
                             size_t& used) {
  uint8_t* a = memory_ + static_cast<size_t>(slot) * slot_bytes_ + used;
  uint8_t* b = a + a_bytes(rank, in_features(module));
  used += a_bytes(rank, in_features(module)) + b_bytes(rank, out_features(module));
  // The last block's spare rows, which have to read as zeros, may hold something older.
  if (rank % kLanes != 0) std::memset(a, 0, a_bytes(rank, in_features(module)));
  LoraModule& placed = modules_[index(slot, layer, module)];
  placed = {rank, scaling, a, b};
  return placed;
}

size_t LoraSlots::load(int slot, const el_lora_pair* pairs, int num_pairs) {
  require(slot >= 0 && slot < max_loras_, "there is no such adapter slot");
  check_pairs(pairs, num_pairs);
  begin_load(slot);
  size_t used = 0;
  std::vector<float> row;
  for (int i = 0; i < num_pairs; i++) {
    const el_lora_pair& pair = pairs[i];
    const LoraModule& to = place(slot, pair.layer, pair.module, pair.rank, pair.scaling, used);
    const int in = in_features(pair.module);
    const int out = out_features(pair.module);
    for (int j = 0; j < pair.rank; j++) {
      read_a_row(pair, j, row);
      write_a_row(row.data(), in, j, to.a);
    }
    for (int o = 0; o < out; o++)
      write_b_row(pair.lora_b + static_cast<size_t>(o) * static_cast<size_t>(pair.rank), pair.rank,
                  o, to.b);
  }
  end_load(slot, used);
  return used;
}

size_t LoraSlots::load_encoded(int slot, const uint8_t* data, size_t size) {
  require(slot >= 0 && slot < max_loras_, "there is no such adapter slot");
  const EncodedAdapter adapter(data, size);
  for (const EncodedModule& module : adapter.modules()) check_fit(module);
  begin_load(slot);
  size_t used = 0;
  for (const EncodedModule& module : adapter.modules()) {
    const auto rank = static_cast<int>(module.components.size());
    const LoraModule& to = place(slot, module.layer, module.module, rank, module.scaling, used);
    for (int row = 0; row < rank; row++) adapter.write_a_row(module, row, to.a);
    for (int first = 0; first < rank; first += 4) adapter.write_b_rows(module, first, to.b);
  }
  end_load(slot, used);
  return used;
}

void LoraSlots::end_load(int slot, size_t used) {
  free_pages(slot, used);
  guard(slot).state.store(kLoaded);
}

// The pages go back to the system, and read as zeros when they are used again.
void LoraSlots::free_pages(int slot, size_t from) {
  from = (from + kLargePage - 1) / kLargePage * kLargePage;
  size_t& touched = touched_bytes_[static_cast<size_t>(slot)];
  if (touched > from)
    ::madvise(memory_ + static_cast<size_t>(slot) * slot_bytes_ + from, slot_bytes_ - from,
              MADV_DONTNEED);
  touched = from;
}

void LoraSlots::unload(int slot, bool keep_pages) {
  require(slot >= 0 && slot < max_loras_, "there is no such adapter slot");
  int expected = kLoaded;
  if (!guard(slot).state.compare_exchange_strong(expected, kChanging)) {
    require(expected == kEmpty && guard(slot).state.compare_exchange_strong(expected, kChanging),
            "the adapter slot is being changed");
  }
  if (guard(slot).holders.load() != 0 && expected == kLoaded) {
    guard(slot).state.store(kLoaded);
    throw Error("the adapter slot is in use");
  }
  for (size_t layer = 0; layer < num_layers_; layer++)
    for (int m = 0; m < num_modules(); m++)
      modules_[index(slot, static_cast<int>(layer), m)] = LoraModule{};
  if (!keep_pages) free_pages(slot, 0);
  guard(slot).state.store(kEmpty);
}

}  // namespace edgelora
