#include "report/claims/claims.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "spec/read_fields.h"

namespace optrush {
namespace {
constexpr size_t kMostClauses = 3;  ///< limit for a sentence that can be remembered

/// Starts with a capital letter, unless the sentence begins with the name of a rung.
std::string sentence(const Analysis& a, std::string text) {
  if (std::ranges::none_of(a.rows, [&](const Row& row) { return text.starts_with(row.name); }))
    text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + ".";
}

/// "one NVIDIA H200", "2 x NVIDIA H100", "AMD EPYC (2 cores)"
std::string device_text(const Json& context) {
  const auto name_of = [](const Json& device) { return device.value("name", "this machine"); };
  if (const auto gpus = context.find("gpus"); gpus != context.end() && gpus->is_array() && !gpus->empty())
    return (gpus->size() == 1 ? "one " : std::to_string(gpus->size()) + " x ") + name_of(gpus->front());
  const auto cpu = context.find("cpu");
  if (cpu == context.end() || !cpu->is_object()) return "this machine";
  const auto cores = number(*cpu, "cores");
  return name_of(*cpu) + (cores ? " (" + counted(std::llround(*cores), "core") + ")" : "");
}
}  // namespace

Claims claims_of(const Analysis& a) {
  Claims claims;
  add_answers(a, claims);
  add_ladder(a, claims);
  add_ablation(a, claims);
  add_grid(a, claims);
  add_scaling(a, claims);
  add_programs(a, claims);
  if (std::ranges::all_of(claims, &Claim::aside)) {
    Claims open;
    add_open(a, open);
    claims.insert(claims.begin(), open.begin(), open.end());
  } else if (!a.tried)  // the stages of a search have stated it
    add_too_few(a, claims);
  add_ends(a, claims);
  if (claims.empty()) add_text(claims, Weight::answer, "nothing was measured");
  return claims;
}

std::vector<std::string> findings(const Analysis& a) {
  return texts_of(claims_of(a), [&](const Claim& claim) { return sentence(a, claim.finding); });
}

std::string finding_text(const Analysis& a) { return join(findings(a), " "); }

std::string headline(const Analysis& a) {
  Claims claims = claims_of(a);
  std::erase_if(claims, [](const Claim& claim) { return claim.weight == Weight::detail; });
  // Drops the last clause of the least weight.
  while (claims.size() > kMostClauses) {
    const auto least = std::ranges::max_element(claims.rbegin(), claims.rend(), {}, &Claim::weight);
    if (least->weight == Weight::answer) break;
    claims.erase(std::next(least).base());
  }
  if (claims.empty()) claims.push_back(claims_of(a).front());
  return "On " + device_text(a.context) + ", " + join(texts_of(claims, &Claim::clause), "; ") + ".";
}
}  // namespace optrush
