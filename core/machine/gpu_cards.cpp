#include "machine/gpu_cards.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "base/suggest.h"
#include "optrush/error.h"

namespace optrush {
namespace {
struct Card {
  const char* name;
  const char* title;
  int sold;        ///< GB in the data sheet
  double reports;  ///< GiB
  const char* sm;
};
// `reports` is LibTorch's "total capacity" of the card (cudaDeviceProp::totalGlobalMem): the smallest value
// in public error reports, because drivers and ECC change it by up to 0.2 GiB. Examples:
// lianqi1008/Control-GIC#6 (A100 80GB), ali-vilab/VGen#104 (RTX 4090), Wan-Video/Wan2.1#465 (RTX 5090),
// hpcaitech/Open-Sora#697 (T4) on GitHub. The GB of a data sheet are less exact: an H100 of 80 GB has 80 GiB
// of HBM, of which the driver keeps some. Of several cards with one size, a size alone means the first.
constexpr Card kCards[] = {
    {"b200", "B200 180GB", 180, 178.35, "sm_100"},
    {"rtx5090", "RTX 5090 32GB", 32, 31.36, "sm_120"},
    {"rtxpro6000", "RTX PRO 6000 Blackwell 96GB", 96, 94.96, "sm_120"},
    {"h100-80", "H100 80GB", 80, 79.10, "sm_90"},
    {"h100-94", "H100 NVL 94GB", 94, 93.00, "sm_90"},
    {"h200", "H200 141GB", 141, 139.72, "sm_90"},
    {"gh200", "GH200 96GB", 96, 94.50, "sm_90"},
    {"l40s", "L40S 48GB", 48, 44.40, "sm_89"},
    {"rtx4090", "RTX 4090 24GB", 24, 23.52, "sm_89"},
    {"l4", "L4 24GB", 24, 22.03, "sm_89"},
    {"rtx6000-ada", "RTX 6000 Ada 48GB", 48, 47.40, "sm_89"},
    {"a10g", "A10G 24GB", 24, 22.05, "sm_86"},
    {"a6000", "RTX A6000 48GB", 48, 47.40, "sm_86"},
    {"rtx3090", "RTX 3090 24GB", 24, 23.68, "sm_86"},
    {"a100-80", "A100 80GB", 80, 79.14, "sm_80"},
    {"a100-40", "A100 40GB", 40, 39.38, "sm_80"},
    {"t4", "T4 16GB", 16, 14.56, "sm_75"},
};
struct Alias {
  const char *name, *card;
};
constexpr Alias kAliases[] = {{"h100", "h100-80"}, {"h100-nvl", "h100-94"}, {"a100", "a100-80"},
                              {"4090", "rtx4090"}, {"3090", "rtx3090"},     {"5090", "rtx5090"}};

constexpr double kGiga = 1e9, kGibi = 1 << 30;
constexpr const char* kNewestKnown = "sm_90";

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

PlannedGpu planned(const Card& card) {
  return {card.title, static_cast<int64_t>(std::llround(card.reports * kGibi)), card.sm};
}

/// Splits "79.1", "80GB" or "80 GiB" into the number and the unit.
std::optional<std::pair<double, std::string>> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  return std::pair(value, lower(unit));
}
}  // namespace

std::vector<std::string> gpu_card_names() {
  std::vector<std::string> names;
  for (const Card& card : kCards) names.emplace_back(card.name);
  for (const Alias& alias : kAliases) names.emplace_back(alias.name);
  return names;
}

Json to_json(const PlannedGpu& gpu) {
  return {{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}, {"sm", gpu.sm}};
}

std::optional<PlannedGpu> listed_gpu(const std::string& name) {
  std::string card = lower(name);
  for (const Alias& alias : kAliases)
    if (alias.name == card) card = alias.card;
  for (const Card& each : kCards)
    if (each.name == card) return planned(each);
  return std::nullopt;
}

PlannedGpu planned_gpu(const std::string& given) {
  if (auto listed = listed_gpu(given)) return *listed;
  const std::string name = lower(given);
  const auto number = number_in(name);
  if (!number || (!number->second.empty() && number->second != "gb" && number->second != "gib"))
    throw UsageError(ErrorCode::unknown_name, "--as-gpu: unknown GPU '" + given + "'",
                     or_else(did_you_mean(name, gpu_card_names()),
                             "give the memory: 80 (a card sold as 80 GB), 79.1 (GiB), 80GB or 80GiB"));
  const auto& [size, unit] = *number;
  constexpr double kMost = 1e6;  // keeps the bytes within int64
  if (!(size > 0) || size > kMost)
    throw UsageError(ErrorCode::invalid_value,
                     "--as-gpu: the memory must be above 0 and at most 1000000, not " + given,
                     "for example 80, 79.1, 80GB or h100");
  const bool as_sold = unit.empty() && name.find('.') == std::string::npos;
  for (const Card& card : kCards)
    if (as_sold && card.sold == size) return planned(card);
  const double bytes = size * (unit == "gb" ? kGiga : kGibi);
  return {"planned GPU", static_cast<int64_t>(std::llround(bytes)), kNewestKnown};
}
}  // namespace optrush
