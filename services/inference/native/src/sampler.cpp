#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "error.h"

namespace edgelora {
namespace {

// Weights fall into buckets by exponent and 6 bits of fraction; 1 is the largest.
constexpr int kBucketShift = 17;
constexpr size_t kNumBuckets = (0x3f800000u >> kBucketShift) + 1;
// Fewer candidates than this are sorted out sooner than counted.
constexpr int kManyCandidates = 512;
constexpr float kLeastTemperature = 1e-6f;

size_t bucket_of(float weight) {
  uint32_t bits;
  std::memcpy(&bits, &weight, sizeof bits);
  return bits >> kBucketShift;
}

int num_chunks(int n) { return (n + kVocabularyChunk - 1) / kVocabularyChunk; }

template <typename T>
size_t as_size(T x) {
  return static_cast<size_t>(x);
}

// Index at which the running sum of `value(i)` first exceeds `share` of its total; never one of
// value 0.
template <typename F>
int first_beyond(int count, double share, const F& value, double& inside) {
  double total = 0.0;
  for (int i = 0; i < count; i++) total += value(i);
  const double target = std::min(share * total, std::nextafter(total, 0.0));
  double before = 0.0;
  for (int i = 0; i < count; i++) {
    const double own = value(i);
    if (before + own > target) {
      inside = (target - before) / own;
      return i;
    }
    before += own;
  }
  inside = 0.0;
  return 0;
}

}  // namespace

Sampler::Sampler(const Kernels& kernels, int num_tokens, int num_threads)
    : kernels_(kernels), num_tokens_(num_tokens), scratch_(as_size(num_threads)) {}

void Sampler::check(const el_sampling& s) const {
  require(s.num_rows >= 1, "sampling needs at least one row");
  const void* arrays[] = {s.logits,           s.temperature,      s.top_k,
                          s.top_p,            s.min_p,            s.draws,
                          s.repetition_penalty, s.presence_penalty, s.frequency_penalty,
                          s.penalty_offsets,  s.penalty_ids,      s.penalty_counts,
                          s.num_logprobs,     s.token_ids,        s.logprobs,
                          s.top_ids,          s.top_logprobs,     s.masks};
  for (const void* array : arrays) require(array != nullptr, "an array of the sampling is missing");
  require(s.num_tokens >= 1 && s.num_tokens <= num_tokens_ && s.row_stride >= s.num_tokens,
          "sampling wants more tokens than a row holds");
  require(s.penalty_offsets[0] == 0, "the offsets of a batch start at 0");
  for (int r = 0; r < s.num_rows; r++) {
    require(std::isfinite(s.temperature[r]) && s.temperature[r] >= 0.0f,
            "a temperature is not a number from 0 up");
    require(s.top_k[r] >= 0 && s.top_p[r] > 0.0f && s.top_p[r] <= 1.0f && s.min_p[r] >= 0.0f &&
                s.min_p[r] <= 1.0f,
            "a top_k, top_p or min_p is out of range");
    require(s.draws[r] >= 0.0 && s.draws[r] < 1.0, "a draw is not in [0, 1)");
    require(std::isfinite(s.repetition_penalty[r]) && s.repetition_penalty[r] > 0.0f &&
                std::isfinite(s.presence_penalty[r]) && std::isfinite(s.frequency_penalty[r]),
            "a penalty is out of range");
    require(s.num_logprobs[r] <= EL_MAX_TOP_LOGPROBS && s.num_logprobs[r] <= s.num_tokens,
            "too many log probabilities are wanted");
    require(s.penalty_offsets[r + 1] >= s.penalty_offsets[r], "the offsets of a batch must not fall");
  }
  for (int32_t i = 0; i < s.penalty_offsets[s.num_rows]; i++)
    require(s.penalty_ids[i] >= 0 && s.penalty_ids[i] < s.num_tokens && s.penalty_counts[i] >= 0,
            "a token id is outside the vocabulary");
}

void Sampler::sample(const el_sampling& s, ThreadPool& pool) {
  check(s);
  const size_t chunks = as_size(num_chunks(num_tokens_));
  for (Scratch& scratch : scratch_) {
    scratch.maxima.resize(chunks * kLanes);
    scratch.weights.resize(chunks * kVocabularyChunk);
    scratch.sums.resize(chunks);
    scratch.ids.resize(as_size(std::max(num_tokens_, kManyCandidates) + kLanes));
    scratch.allowed.resize(as_size(num_tokens_));
    scratch.allowed_ids.resize(as_size(num_tokens_));
  }
  pool.run([&](ThreadPool::Team& team) {
    team.each(s.num_rows,
              [&](int row) { sample_row(s, row, scratch_[as_size(team.index())]); });
  });
}

void Sampler::sample_row(const el_sampling& s, int row, Scratch& scratch) const {
  const float* untouched = s.logits + row * s.row_stride;
  const float* x = penalised(s, row, scratch);
  if (!kernels_.scan(x, s.num_tokens, scratch.maxima.data())) {
    s.token_ids[row] = -1;
    return;
  }
  if (s.masks[row] == nullptr) {
    s.token_ids[row] = choose(x, s.num_tokens, s, row, scratch);
  } else {
    const int n = keep_allowed(x, s.num_tokens, s.masks[row], scratch);
    if (n == 0) {
      s.token_ids[row] = -1;
      return;
    }
    kernels_.scan(scratch.allowed.data(), n, scratch.maxima.data());
    const int32_t at = choose(scratch.allowed.data(), n, s, row, scratch);
    s.token_ids[row] = scratch.allowed_ids[as_size(at)];
  }
  if (s.num_logprobs[row] >= 0) list_logprobs(untouched, s, row, scratch);
}

// Moves the allowed logits together, in order; returns how many there are.
int Sampler::keep_allowed(const float* x, int n, const uint32_t* mask, Scratch& scratch) {
  float* values = scratch.allowed.data();
  int32_t* ids = scratch.allowed_ids.data();
  int count = 0;
  for (int begin = 0; begin < n; begin += 32) {
    uint32_t word = mask[begin / 32];
    if (n - begin < 32) word &= (1u << (n - begin)) - 1;
    if (word == ~0u) {
      std::memcpy(values + count, x + begin, 32 * sizeof(float));
      for (int i = 0; i < 32; i++) ids[count + i] = begin + i;
      count += 32;
      continue;
    }
    for (; word != 0; word &= word - 1) {
      const int id = begin + __builtin_ctz(word);
      values[count] = x[id];
      ids[count++] = id;
    }
  }
  return count;
}

// An index of `x`, whose maxima are in the scratch.
int32_t Sampler::choose(const float* x, int n, const el_sampling& s, int row,
                        Scratch& scratch) const {
  return s.temperature[row] > 0.0f ? draw(x, n, s, row, scratch) : likeliest(x, n, scratch);
}

const float* Sampler::penalised(const el_sampling& s, int row, Scratch& scratch) const {
  const float* untouched = s.logits + row * s.row_stride;
  const int32_t begin = s.penalty_offsets[row];
  const int32_t end = s.penalty_offsets[row + 1];
  if (begin == end) return untouched;
  scratch.row.assign(untouched, untouched + s.num_tokens);
  for (int32_t i = begin; i < end; i++) {
    float& value = scratch.row[as_size(s.penalty_ids[i])];
    value = value > 0.0f ? value / s.repetition_penalty[row] : value * s.repetition_penalty[row];
    if (s.penalty_counts[i] == 0) continue;
    value -= s.presence_penalty[row];
    value -= s.frequency_penalty[row] * static_cast<float>(s.penalty_counts[i]);
  }
  return scratch.row.data();
}

// The first token with the largest logit.
int32_t Sampler::likeliest(const float* x, int n, Scratch& scratch) const {
  const float* maxima = scratch.maxima.data();
  const auto largest = std::max_element(maxima, maxima + num_chunks(n) * kLanes);
  const auto begin = static_cast<int>((largest - maxima) / kLanes) * kVocabularyChunk;
  const int end = std::min(begin + kVocabularyChunk, n);
  return static_cast<int32_t>(std::find(x + begin, x + end, *largest) - x);
}

int32_t Sampler::draw(const float* x, int n, const el_sampling& s, int row,
                      Scratch& scratch) const {
  const float top = x[likeliest(x, n, scratch)];
  float* weights = scratch.weights.data();
  float* sums = scratch.sums.data();
  kernels_.weigh(x, n, top, 1.0f / std::max(s.temperature[row], kLeastTemperature), weights, sums);
  if (s.top_k[row] > 0 && s.top_k[row] < n) {
    collect_largest(x, n, s.top_k[row], scratch);
    const auto last = scratch.candidates.begin() + (s.top_k[row] - 1);
    std::nth_element(scratch.candidates.begin(), last, scratch.candidates.end(), is_heavier);
    const float least = weights[last->id];
    // Behind the last are those of equal weight that come later.
    for (auto c = last + 1; c != scratch.candidates.end(); c++) weights[c->id] = 0.0f;
    kernels_.cut(weights, n, least, sums);
  }
  if (s.top_p[row] < 1.0f) keep_nucleus(n, s.top_p[row], scratch);
  // The heaviest weighs 1, so min-p is the bound itself.
  if (s.min_p[row] > 0.0f) kernels_.cut(weights, n, s.min_p[row], sums);
  double inside = 0.0;
  const int chunk = first_beyond(
      num_chunks(n), s.draws[row], [&](int i) { return sums[i]; }, inside);
  const int begin = chunk * kVocabularyChunk;
  return begin + first_beyond(
                     std::min(kVocabularyChunk, n - begin), inside,
                     [&](int i) { return weights[begin + i]; }, inside);
}

// Keeps the fewest tokens, the heaviest first, that have the share top_p of the weight.
void Sampler::keep_nucleus(int n, float top_p, Scratch& scratch) const {
  float* weights = scratch.weights.data();
  double total = 0.0;
  for (int c = 0; c < num_chunks(n); c++) total += scratch.sums[as_size(c)];
  const double target = top_p * total;
  double before = 0.0;
  // All tokens lighter than this weigh less together than what may be left out.
  const auto spare = static_cast<float>((1.0 - top_p) * total / n);
  int count = kernels_.collect(weights, n, spare, kManyCandidates, scratch.ids.data());
  if (count > kManyCandidates) count = find_bucket(n, target, before, scratch);
  std::vector<Candidate>& candidates = scratch.candidates;
  candidates.clear();
  for (int i = 0; i < count; i++) {
    const int32_t id = scratch.ids[as_size(i)];
    candidates.push_back({weights[id], id});
  }
  auto begin = candidates.begin();
  auto end = candidates.end();
  while (end - begin > 1) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, is_heavier);
    double heavier = 0.0;
    for (auto c = begin; c != middle; c++) heavier += c->weight;
    if (before + heavier >= target) {
      end = middle;
    } else {
      before += heavier;
      begin = middle;
    }
  }
  const float least = begin->weight;
  for (auto c = end; c != candidates.end(); c++) weights[c->id] = 0.0f;
  kernels_.cut(weights, n, least, scratch.sums.data());
}

// Fills the ids with the tokens among which the nucleus ends: all those of one bucket of weights.
// `before`: what the heavier buckets weigh.
int Sampler::find_bucket(int n, double target, double& before, Scratch& scratch) {
  const float* weights = scratch.weights.data();
  std::vector<double>& sums = scratch.bucket_sums;
  sums.assign(kNumBuckets, 0.0);
  for (int i = 0; i < n; i++) sums[bucket_of(weights[i])] += weights[i];
  size_t bucket = kNumBuckets - 1;
  size_t last = bucket;  // that holds a token: rounding must not leave us with none
  for (;; bucket--) {
    if (sums[bucket] > 0.0) last = bucket;
    if (bucket == 1 || before + sums[bucket] >= target) break;
    before += sums[bucket];
  }
  if (last != bucket) before -= sums[last];
  int count = 0;
  for (int i = 0; i < n; i++)
    if (bucket_of(weights[i]) == last) scratch.ids[as_size(count++)] = i;
  return count;
}

void Sampler::list_logprobs(const float* x, const el_sampling& s, int row,
                            Scratch& scratch) const {
  const int n = s.num_tokens;
  kernels_.scan(x, n, scratch.maxima.data());
  const float top = x[likeliest(x, n, scratch)];
  kernels_.weigh(x, n, top, 1.0f, scratch.weights.data(), scratch.sums.data());
  double total = 0.0;
  for (int c = 0; c < num_chunks(n); c++) total += scratch.sums[as_size(c)];
  const double log_total = static_cast<double>(top) + std::log(total);
  s.logprobs[row] = static_cast<double>(x[s.token_ids[row]]) - log_total;
  if (s.num_logprobs[row] == 0) return;
  const auto count = as_size(s.num_logprobs[row]);
  collect_largest(x, n, s.num_logprobs[row], scratch);
  std::vector<Candidate>& best = scratch.candidates;
  std::partial_sort(best.begin(), best.begin() + static_cast<ptrdiff_t>(count), best.end(),
                    is_heavier);
  for (size_t i = 0; i < count; i++) {
    const size_t at = as_size(row) * EL_MAX_TOP_LOGPROBS + i;
    s.top_ids[at] = best[i].id;
    s.top_logprobs[at] = static_cast<double>(best[i].weight) - log_total;
  }
}

// Fills the candidates with logits, by index: the `count` largest and perhaps some more. The
// count-th largest maximum of all lanes is a lower bound of the count-th largest logit.
void Sampler::collect_largest(const float* x, int n, int count, Scratch& scratch) const {
  std::vector<float>& sorted = scratch.sorted_maxima;
  // Lanes of the last chunk that no token fills repeat another lane's and must not count twice.
  const int whole = n / kVocabularyChunk * kLanes;
  float least = -std::numeric_limits<float>::infinity();
  if (count <= whole) {
    sorted.assign(scratch.maxima.begin(), scratch.maxima.begin() + whole);
    const auto bound = sorted.begin() + (count - 1);
    std::nth_element(sorted.begin(), bound, sorted.end(), std::greater<>());
    least = *bound;
  }
  const int found = kernels_.collect(x, n, least, n, scratch.ids.data());
  scratch.candidates.clear();
  for (int i = 0; i < found; i++) {
    const int32_t id = scratch.ids[as_size(i)];
    scratch.candidates.push_back({x[id], id});
  }
}

bool Sampler::is_heavier(const Candidate& a, const Candidate& b) {
  return a.weight > b.weight || (a.weight == b.weight && a.id < b.id);
}

}  // namespace edgelora
