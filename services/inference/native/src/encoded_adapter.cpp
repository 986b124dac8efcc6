#include "encoded_adapter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "edgelora_native.h"
#include "error.h"
#include "kernels.h"
#include "lora_slots.h"

namespace edgelora {
namespace {

constexpr const char* kDamaged = "the encoded adapter is damaged";
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMaxModules = 65536;
constexpr uint32_t kMaxRank = 1024;
constexpr uint32_t kMaxFeatures = 1u << 20;
constexpr uint32_t kMaxCodebooks = 16;
constexpr size_t kTailBytes = 8;
constexpr uint16_t kInfiniteHalf = 0x7c00;
constexpr uint16_t kBScale = 0x2000;  // 2^-7
constexpr int kPack = 4;              // ranks that lie together in B

struct Header {
  char magic[8];
  uint32_t version, num_modules, num_components, num_codebooks;
  uint64_t file_bytes, num_parameters;
  uint32_t rank, original_rank, level;
  uint8_t unused[12];
  uint8_t adapter_digest[32], base_digest[32];
};
static_assert(sizeof(Header) == 128);

struct ModuleEntry {
  uint16_t layer, module;
  uint32_t rank, in, out;
  float scaling;
};
static_assert(sizeof(ModuleEntry) == 20);

struct ComponentEntry {
  uint16_t scale;
  uint8_t a_bits, b_bits;
};
static_assert(sizeof(ComponentEntry) == 4);

struct CodebookEntry {
  uint8_t factor, bits, window, unused;
};
static_assert(sizeof(CodebookEntry) == 4);

void need(bool holds) { require(holds, kDamaged); }

bool within(uint32_t x, uint32_t low, uint32_t high) { return low <= x && x <= high; }

bool is_size(uint32_t features) {
  return within(features, kGroup, kMaxFeatures) && features % kGroup == 0;
}

// The runs of one table, decoded eight values at a time; kBits at compile time makes the shifts
// constants.
template <int kBits>
class Run {
 public:
  Run(const uint8_t* data, const uint8_t* levels, int window)
      : data_(data), levels_(levels), before_(window - kBits), mask_((1u << window) - 1) {}

  void next(uint8_t* eight) {
    uint64_t word;
    std::memcpy(&word, data_, sizeof word);  // the tail of the file lets it read beyond the run
    data_ += kBits;
    if constexpr (kBits < 8) word &= (uint64_t{1} << (8 * kBits)) - 1;
    const uint64_t string = word << before_ | past_;
    for (int j = 0; j < 8; j++) eight[j] = levels_[string >> (j * kBits) & mask_];
    past_ = before_ == 0 ? 0 : word >> (8 * kBits - before_);
  }

 private:
  const uint8_t* data_;
  const uint8_t* levels_;
  const int before_;  // bits of the value before that belong to a look-up
  const uint64_t mask_;
  uint64_t past_ = 0;
};

// Calls `use` with the run of the right type.
template <typename F>
void with_run(int bits, const uint8_t* data, const uint8_t* levels, int window, F&& use) {
  switch (bits) {
    case 1:
      return use(Run<1>(data, levels, window));
    case 2:
      return use(Run<2>(data, levels, window));
    case 3:
      return use(Run<3>(data, levels, window));
    case 4:
      return use(Run<4>(data, levels, window));
    case 5:
      return use(Run<5>(data, levels, window));
    case 6:
      return use(Run<6>(data, levels, window));
    case 7:
      return use(Run<7>(data, levels, window));
    default:
      return use(Run<8>(data, levels, window));
  }
}

}  // namespace

// Takes parts of the file, one after the other.
class EncodedAdapter::Reader {
 public:
  Reader(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  size_t left() const { return left_; }

  const uint8_t* take(size_t bytes) {
    need(bytes <= left_);
    const uint8_t* part = at_;
    at_ += bytes;
    left_ -= bytes;
    return part;
  }

  template <typename T>
  T take_entry() {
    T entry;
    std::memcpy(&entry, take(sizeof entry), sizeof entry);
    return entry;
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

EncodedAdapter::EncodedAdapter(const uint8_t* data, size_t size) {
  need(data != nullptr);
  Reader reader(data, size);
  const auto header = reader.take_entry<Header>();
  require(std::memcmp(header.magic, "EDGELORQ", sizeof header.magic) == 0,
          "this is no encoded adapter");
  require(header.version == kVersion, "the encoded adapter has another version: register it again");
  need(header.file_bytes == size && within(header.num_modules, 1, kMaxModules) &&
       within(header.num_codebooks, 2, kMaxCodebooks) && header.num_parameters >= 1 &&
       within(header.rank, 1, header.original_rank) && header.original_rank <= kMaxRank);
  need(header.level == 320 || header.level == 450 || header.level == 800);
  for (const uint8_t byte : header.unused) need(byte == 0);
  read_modules(reader, header.num_modules, header.num_components);
  uint32_t largest = 0;
  for (const EncodedModule& module : modules_)
    largest = std::max(largest, static_cast<uint32_t>(module.components.size()));
  need(largest == header.rank);
  read_components(reader);
  read_codebooks(reader, header.num_codebooks);
  read_payload(reader);
  const uint8_t* tail = reader.take(kTailBytes);
  for (size_t i = 0; i < kTailBytes; i++) need(tail[i] == 0);
  need(reader.left() == 0);
}

void EncodedAdapter::read_modules(Reader& reader, uint32_t count, uint32_t num_components) {
  // Before anything is allocated for them.
  need(size_t{count} * sizeof(ModuleEntry) + size_t{num_components} * sizeof(ComponentEntry) <=
       reader.left());
  modules_.reserve(count);
  int previous = -1;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; i++) {
    const auto entry = reader.take_entry<ModuleEntry>();
    const int order = entry.layer * EL_NUM_MODULES + entry.module;
    need(entry.module < EL_NUM_MODULES && order > previous && within(entry.rank, 1, kMaxRank) &&
         is_size(entry.in) && is_size(entry.out));
    need(std::isfinite(entry.scaling) && entry.scaling > 0.0f);
    previous = order;
    sum += entry.rank;
    need(sum <= num_components);
    modules_.push_back({entry.layer, entry.module, static_cast<int>(entry.in),
                        static_cast<int>(entry.out), entry.scaling,
                        std::vector<EncodedComponent>(entry.rank)});
  }
  need(sum == num_components);
}

void EncodedAdapter::read_components(Reader& reader) {
  for (EncodedModule& module : modules_) {
    for (EncodedComponent& component : module.components) {
      const auto entry = reader.take_entry<ComponentEntry>();
      need(entry.scale >= 1 && entry.scale < kInfiniteHalf);
      need(within(entry.a_bits, 1, kMaxBits) && within(entry.b_bits, 1, kMaxBits));
      component = {entry.scale, entry.a_bits, entry.b_bits, nullptr, nullptr};
    }
  }
}

void EncodedAdapter::read_codebooks(Reader& reader, uint32_t count) {
  int previous = -1;
  for (uint32_t i = 0; i < count; i++) {
    const auto entry = reader.take_entry<CodebookEntry>();
    const int order = entry.factor * (kMaxBits + 1) + entry.bits;
    need(entry.factor < 2 && within(entry.bits, 1, kMaxBits) && order > previous);
    need(within(entry.window, std::max<uint32_t>(entry.bits, 2), kMaxBits) && entry.unused == 0);
    previous = order;
    Codebook& book = codebooks_[entry.factor][entry.bits];
    book.bits = entry.bits;
    book.window = entry.window;
  }
  for (auto& factor : codebooks_) {
    for (Codebook& book : factor) {
      if (book.bits == 0) continue;
      const size_t entries = size_t{1} << book.window;
      const uint8_t* table = reader.take(entries);
      for (size_t i = 0; i < entries; i++) {
        need(table[i] != 0x80);  // -128
        book.levels[i] = table[i] ^ 0x80u;
      }
    }
  }
}

void EncodedAdapter::read_payload(Reader& reader) {
  const auto bytes = [](int values, int bits) {
    return static_cast<size_t>(values) / 8 * static_cast<size_t>(bits);
  };
  for (EncodedModule& module : modules_) {
    for (EncodedComponent& component : module.components) {
      need(codebook(0, component.a_bits).bits != 0 && codebook(1, component.b_bits).bits != 0);
      component.a = reader.take(bytes(module.in, component.a_bits));
    }
    for (EncodedComponent& component : module.components)
      component.b = reader.take(bytes(module.out, component.b_bits));
  }
}

void EncodedAdapter::write_a_row(const EncodedModule& module, int row, uint8_t* a) const {
  const EncodedComponent& component = module.components[static_cast<size_t>(row)];
  const Codebook& book = codebook(0, component.a_bits);
  const int groups = module.in / kGroup;
  uint8_t* first = a + static_cast<size_t>(row / kLanes * groups) * kQ8GroupBytes;
  const int lane = row % kLanes;
  with_run(component.a_bits, component.a, book.levels, book.window, [&](auto run) {
    uint8_t* group = first;
    for (int g = 0; g < groups; g++, group += kQ8GroupBytes) {
      std::memcpy(group + 2 * lane, &component.scale, sizeof component.scale);
      uint8_t* bytes = group + 32 + 4 * lane;
      for (int i = 0; i < kGroup; i += 8) {
        uint8_t eight[8];
        run.next(eight);
        std::memcpy(bytes + 16 * i, eight, 4);
        std::memcpy(bytes + 16 * i + 64, eight + 4, 4);
      }
    }
  });
}

void EncodedAdapter::write_b_rows(const EncodedModule& module, int first, uint8_t* b) const {
  const auto rank = static_cast<int>(module.components.size());
  const size_t block_bytes = LoraModule::b_block_bytes(rank);
  uint8_t* const blocks_end = b + static_cast<size_t>(module.out / kLanes) * block_bytes;
  const size_t part = 32 + static_cast<size_t>(first / kPack) * kPack * kLanes;
  for (int at = 0; at < kPack; at++) {
    if (first + at >= rank) {
      for (uint8_t* block = b; block < blocks_end; block += block_bytes)
        for (int lane = 0; lane < kLanes; lane++) block[part + kPack * lane + at] = 128;
      continue;
    }
    const EncodedComponent& component = module.components[static_cast<size_t>(first + at)];
    const Codebook& book = codebook(1, component.b_bits);
    with_run(component.b_bits, component.b, book.levels, book.window, [&](auto run) {
      for (uint8_t* block = b; block < blocks_end; block += block_bytes) {
        for (int lane = 0; lane < kLanes; lane += 8) {
          uint8_t eight[8];
          run.next(eight);
          for (int i = 0; i < 8; i++) block[part + kPack * (lane + i) + at] = eight[i];
        }
      }
    });
  }
  if (first != 0) return;
  for (uint8_t* block = b; block < blocks_end; block += block_bytes)
    for (int lane = 0; lane < kLanes; lane++)
      std::memcpy(block + 2 * lane, &kBScale, sizeof kBScale);
}

}  // namespace edgelora
