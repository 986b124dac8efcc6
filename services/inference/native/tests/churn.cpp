// Adapters come and go in the slots while the engine decodes.
#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "adapters.h"
#include "script.h"

namespace edgelora::check {
namespace {

constexpr int kKinds = 3;
constexpr int kSlots = 2;
constexpr el_limits kLimits{16, kSlots + 1, 8, 32, 2, 0};
constexpr int kNothing = kKinds;

// What the second thread last did to a slot: changes * (kKinds + 1) + the adapter in it.
using Contents = std::atomic<uint64_t>;

// Adapters of random factors, and an encoded one after them.
struct Adapters {
  std::vector<Adapter> factors;
  std::vector<uint8_t> encoded;

  Refusal load_into(el_engine* engine, int slot, int kind) const {
    const auto at = static_cast<size_t>(kind);
    return at < factors.size() ? load(engine, slot, factors[at].pairs)
                               : load_encoded(engine, slot, encoded);
  }
};

void swap(el_engine* engine, const Adapters& adapters, Contents* contents,
          std::atomic<int>& num_swaps, const std::atomic<bool>& enough) {
  for (int i = 0; !enough.load(); i++) {
    const int slot = i % kSlots;
    const int kind = i / kSlots % kKinds;
    const uint64_t change = (contents[slot].load() / (kKinds + 1) + 1) * (kKinds + 1);
    contents[slot].store(change + kNothing);
    while (!unload(engine, slot, i % 3 != 0).empty()) std::this_thread::yield();
    must(adapters.load_into(engine, slot, kind));
    contents[slot].store(change + static_cast<uint64_t>(kind));
    num_swaps.fetch_add(1);
  }
}

}  // namespace

void run_churn(const std::string& model, int num_rows, const std::string& encoded) {
  const PackedFile file(model);
  const EnginePointer engine = must_open(model, kLimits);
  const auto vocab = static_cast<size_t>(file.header().vocab_size);
  Adapters adapters;
  // Their ranks differ, so that one adapter's factors lie where another's scales were.
  adapters.factors.reserve(kKinds - 1);
  for (int kind = 0; kind < kKinds - 1; kind++)
    adapters.factors.emplace_back(file.header(), 11 + kind, 2 + 3 * kind, all_modules());
  adapters.encoded = read_bytes(encoded);
  must(adapters.load_into(engine.get(), kSlots, 0));

  const auto row = [](int32_t block, std::vector<std::pair<int32_t, float>> uses) {
    return Chunk{{1, 2, 3, 4, 5}, 0, {block}, std::move(uses)};
  };
  std::vector<std::vector<float>> expected;
  for (int kind = 0; kind < kKinds; kind++) {
    must(adapters.load_into(engine.get(), 0, kind));
    expected.push_back(must_forward(engine.get(), {row(0, {{0, 1.0f}})}));
    must(unload(engine.get(), 0));
  }
  expected.push_back(must_forward(engine.get(), {row(0, {})}));
  for (int kind = 0; kind < kKinds; kind++)
    expect(expected[static_cast<size_t>(kind)] != expected[kNothing], "an adapter has an effect");

  Contents contents[kSlots];
  for (Contents& each : contents) each.store(kNothing);
  std::atomic<int> num_swaps{0};
  std::atomic<bool> enough{false};
  std::thread second(swap, engine.get(), std::cref(adapters), contents, std::ref(num_swaps),
                     std::cref(enough));
  int served[kKinds] = {};
  const auto is_enough = [&] {
    return num_swaps.load() >= num_rows &&
           std::all_of(served, served + kKinds, [&](int count) { return count >= num_rows; });
  };
  // Now and then the slots are left alone, or they would be held nearly always.
  for (int i = 0; !is_enough(); i++) {
    const int32_t slot = i % kSlots;
    const uint64_t before = contents[slot].load();
    std::vector<Chunk> chunks{row(0, {}), row(1, {{kSlots, 1.0f}})};
    if (i % 3 != 0) chunks.push_back(row(2, {{slot, 1.0f}}));
    std::vector<float> logits;
    const Refusal refusal = forward(engine.get(), chunks, logits);
    if (!refusal.empty()) {
      expect(chunks.size() == 3 && refusal == "a sequence names an adapter slot that holds nothing",
             refusal);
      continue;
    }
    const uint64_t after = contents[slot].load();
    const auto got = [&](size_t at) {
      return std::vector<float>(logits.begin() + static_cast<std::ptrdiff_t>(at * vocab),
                                logits.begin() + static_cast<std::ptrdiff_t>((at + 1) * vocab));
    };
    expect(got(0) == expected[kNothing], "a row without an adapter is the base's");
    expect(got(1) == expected[0], "a row of a slot nobody touches is that adapter's");
    if (chunks.size() < 3) continue;
    int kind = 0;
    while (kind < kKinds && got(2) != expected[static_cast<size_t>(kind)]) kind++;
    expect(kind < kKinds, "a row has the bits of one of the adapters");
    served[kind]++;
    if (before == after && before % (kKinds + 1) != kNothing)
      expect(static_cast<uint64_t>(kind) == before % (kKinds + 1), "it is the slot's adapter");
  }
  enough.store(true);
  second.join();
}

}  // namespace edgelora::check
