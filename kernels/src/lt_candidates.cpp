#include "kernels/lt_candidates.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/lt_recipe.hpp"

namespace ai::kernels {
namespace {

constexpr std::int64_t kMaxTiles = 4096;

bool same(const LtAlgorithm& a, const LtAlgorithm& b) noexcept {
  return std::memcmp(&a.algo, &b.algo, sizeof a.algo) == 0;
}

std::string product_text(const Product& p) {
  const std::string k = std::to_string(p.k());
  std::string text = "a product [";
  return text.append(std::to_string(p.m())) + "," + k + "] [" + k + "," + std::to_string(p.n()) +
         "]";
}

Status no_algorithm(const Product& product) {
  return {StatusCode::Unsupported, "cuBLASLt has no algorithm for " + product_text(product)};
}

/// A step over the first algorithm that cuBLASLt does not refuse when it is called: those without
/// scratch come first, since tiles may run side by side and each would need its own.
Result<std::shared_ptr<Step>> working_step(const LtOffer& offer, const std::string& step_name) {
  std::shared_ptr<Step> step = make_lt_step(step_name, offer.matmul, offer.fallback);
  const Status first = step->prepare();
  if (first.ok()) return step;
  for (const LtAlgorithm& algorithm : offer.algorithms) {
    if (same(algorithm, offer.fallback)) continue;
    step = make_lt_step(step_name, offer.matmul, algorithm);
    if (step->prepare().ok()) return step;
  }
  return first;
}

/// One step a tile. They are the only candidate, so each has been tried.
Status append_tiles(Machine& machine, const LtRoad& road, std::vector<Candidate>& candidates) {
  const Product& product = road.call.product;
  if (const std::int64_t count = tile_count(product); count > kMaxTiles) {
    return {StatusCode::Unsupported, product_text(product) + " would take " +
                                         std::to_string(count) +
                                         " calls of cuBLASLt, which is limited to 2^31 elements"};
  }
  Candidate candidate;
  candidate.name = road.family + "/tiles";
  for (const Product& tile : tiles_of(product)) {
    const Result<LtOffer> offer = ask_lt(machine, {.product = tile});
    AI_RETURN_IF_ERROR(offer.status());
    if (offer->algorithms.empty()) return no_algorithm(tile);
    Result<std::shared_ptr<Step>> step = working_step(*offer, road.step_name);
    AI_RETURN_IF_ERROR(step.status());
    candidate.steps.push_back(*std::move(step));
  }
  candidate.steps.insert(candidate.steps.end(), road.after.begin(), road.after.end());
  candidates.push_back(std::move(candidate));
  return {};
}

/// Whether `name` is one that candidates of `family` get.
bool is_variant_of(std::string_view name, const std::string& family) {
  if (!name.starts_with(family) || name.substr(family.size(), 1) != "/") return false;
  const std::string_view variant = name.substr(family.size() + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return variant == "fallback" || (!variant.empty() && variant.size() <= 4 &&
                                   std::all_of(variant.begin(), variant.end(), is_digit));
}

}  // namespace

Result<LtOffer> ask_lt(Machine& machine, const LtCall& call) {
  const Result<std::shared_ptr<const LtContext>> context = machine.lt();
  AI_RETURN_IF_ERROR(context.status());
  Result<std::shared_ptr<LtMatmul>> matmul = LtMatmul::make(*context, call);
  AI_RETURN_IF_ERROR(matmul.status());
  LtOffer offer;
  offer.matmul = *std::move(matmul);

  for (const std::size_t workspace : kLtWorkspaceLimits) {
    const Result<const std::vector<LtAlgorithm>*> asked =
        machine.algorithms(*offer.matmul, workspace);
    AI_RETURN_IF_ERROR(asked.status());
    const std::vector<LtAlgorithm>& answers = **asked;
    if (!answers.empty() && (workspace == 0 || offer.algorithms.empty())) {
      offer.fallback = answers.front();
    }
    for (const LtAlgorithm& answer : answers) {
      bool known = false;
      for (const LtAlgorithm& earlier : offer.algorithms) known = known || same(earlier, answer);
      if (!known) offer.algorithms.push_back(answer);
    }
  }
  return offer;
}

Candidate lt_candidate(const LtRoad& road, const std::string& variant,
                       const std::shared_ptr<LtMatmul>& matmul, const LtAlgorithm& algorithm) {
  Candidate candidate;
  candidate.name = road.family + "/" + variant;
  candidate.steps.push_back(make_lt_step(road.step_name, matmul, algorithm));
  candidate.steps.insert(candidate.steps.end(), road.after.begin(), road.after.end());
  candidate.recipe = to_text({algorithm, matmul->alignments()});
  return candidate;
}

std::optional<Candidate> recall_lt(Machine& machine, const LtRoad& road,
                                   const RecalledCandidate& recalled) {
  if (!is_variant_of(recalled.name, road.family)) return std::nullopt;
  const std::optional<LtRecipe> recipe = parse_lt_recipe(recalled.recipe);
  if (!recipe || recipe->algorithm.workspace_bytes > kLtWorkspaceBytes) return std::nullopt;

  const Result<std::shared_ptr<const LtContext>> context = machine.lt();
  if (!context) return std::nullopt;
  const Result<std::shared_ptr<LtMatmul>> matmul = LtMatmul::make(*context, road.call);
  if (!matmul) return std::nullopt;
  const LtAlignments alignments = (*matmul)->alignments();
  for (std::size_t i = 0; i < alignments.size(); ++i) {
    if (alignments[i] < recipe->alignments[i]) return std::nullopt;
  }
  const Result<std::size_t> workspace_bytes = (*matmul)->check(recipe->algorithm.algo);
  if (!workspace_bytes || *workspace_bytes > recipe->algorithm.workspace_bytes) {
    return std::nullopt;
  }
  return lt_candidate(road, recalled.name.substr(road.family.size() + 1), *matmul,
                      recipe->algorithm);
}

Status append_offered(Machine& machine, const LtRoad& road, bool trusted,
                      std::vector<Candidate>& candidates) {
  const Result<LtOffer> offer = ask_lt(machine, road.call);
  AI_RETURN_IF_ERROR(offer.status());
  if (offer->algorithms.empty()) {
    candidates.push_back(
        {.name = road.family, .reason = "cuBLASLt has no algorithm for it", .steps = {}});
    return {};
  }
  for (std::size_t i = 0; i < offer->algorithms.size(); ++i) {
    candidates.push_back(
        lt_candidate(road, std::to_string(i), offer->matmul, offer->algorithms[i]));
    candidates.back().trusted = trusted;
  }
  return {};
}

Status append_products(Machine& machine, const LtRoad& road, std::vector<Candidate>& candidates) {
  if (!within_span(road.call.product)) return append_tiles(machine, road, candidates);
  const Result<LtOffer> offer = ask_lt(machine, road.call);
  AI_RETURN_IF_ERROR(offer.status());
  if (offer->algorithms.empty()) return no_algorithm(road.call.product);

  // A lone answer is its own fallback; with several, the fallback is said again, at the end.
  const std::size_t count = offer->algorithms.size();
  for (std::size_t i = 0; count > 1 && i < count; ++i) {
    candidates.push_back(
        lt_candidate(road, std::to_string(i), offer->matmul, offer->algorithms[i]));
  }
  candidates.push_back(lt_candidate(road, "fallback", offer->matmul, offer->fallback));
  return {};
}

}  // namespace ai::kernels
