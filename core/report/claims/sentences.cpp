// The sentence of each claim.
#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/numbers/format.h"
#include "base/text.h"
#include "report/claims/claim.h"
#include "report/claims/claims.h"

namespace optrush {
namespace {
constexpr size_t kMostNames = 2;       ///< limit for names in a clause
constexpr double kWorthNaming = 0.05;  ///< smaller changes of memory are not mentioned
constexpr double kSmallChange = 0.02;  ///< a smaller change is stated with a decimal

std::string ratio(const Ratio& speed, Form form) {
  return form == Form::finding ? interval_text(speed) : value_text(speed);
}

std::string size_of_change(double ratio) {
  const double part = std::abs(ratio - 1);
  return percent(part, part < kSmallChange ? 1 : 0);
}

/// "no difference above 2.5 %", or "undecided"; "" for a claim.
std::string verdict(const Ratio& speed, Form form) {
  const Verdict verdict = verdict_of(speed);
  if (speed.claim()) return "";
  return verdict.outcome == Outcome::alike || form == Form::finding ? describe(verdict)
                                                                    : std::string(to_string(verdict.outcome));
}

std::string after(const char* separator, const std::string& text) {
  return text.empty() ? "" : separator + text;
}

/// "48 % less memory (37.4 GiB instead of 71.5 GiB)"
std::string memory_of(const Relation& e, Form form) {
  std::string text = memory_change(e.memory);
  if (!text.empty() && form == Form::finding && e.row != nullptr && e.other != nullptr)
    text += " (" + bytes(*e.row->memory.allocated) + " instead of " + bytes(*e.other->memory.allocated) + ")";
  return text;
}

/// "A, B and C"; in a clause "A, B and 4 more".
std::string listed(std::vector<std::string> parts, Form form) {
  const size_t all = parts.size();
  if (form == Form::clause && all > kMostNames + 1) {
    parts.resize(kMostNames);
    parts.push_back(std::to_string(all - kMostNames) + " more");
  }
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? last : join(parts) + " and " + last;
}

/// "A (1.234) and B (1.250)"
std::string listed(const Numbers& numbers, int digits, Form form) {
  const auto text = [&](const auto& each) { return each.first + " (" + fixed(each.second, digits) + ")"; };
  return listed(texts_of(numbers, text), form);
}

/// "A (1.49x [1.35, 1.65], 54 % less memory)"
std::string with_figures(const Relation& e, Form form, bool outcome) {
  std::vector<std::string> figures = {ratio(*e.speed, form), memory_change(e.memory), e.condition,
                                      e.worse ? "but it trains worse" : "",
                                      outcome ? what_would_tell(verdict_of(*e.speed)) : ""};
  std::erase(figures, "");
  return e.name + " (" + join(figures) + ")";
}

std::string text(const Trains& claim, Form form) {
  const Relation& e = claim.relation;
  const bool decided = e.speed->claim();
  std::string text = e.name;
  if (claim.absolute) text += " trains " + grouped(*e.row->tokens_per_second) + " tokens/s";
  if (claim.absolute && e.row->mfu) text += " (" + percent(*e.row->mfu) + " MFU)";
  if (form == Form::clause && !decided)
    text += (claim.absolute ? " and is" : " is") + std::string(" not shown to be faster or slower than ") +
            e.than;
  else
    text += (claim.absolute ? ", " : " trains ") + as_fast(e, form);
  if (e.row != nullptr && e.other != nullptr && e.row->devices != e.other->devices)
    text += " on " + counted(e.row->devices, "rank") + " instead of " + std::to_string(e.other->devices);
  if (!e.condition.empty()) text += " (not like for like: " + e.condition + ")";
  text += after(", with ", memory_of(e, form));
  if (form == Form::finding || verdict_of(*e.speed).outcome == Outcome::alike)
    text += after(", ", verdict(*e.speed, form));
  return text + (e.worse ? ", but trains worse" : "") + claim.remark;
}

std::string text(const Takes& claim, Form form) {
  const Relation& e = claim.relation;
  std::string text = e.name + " takes " + bytes(*e.row->memory.allocated) + ", " + memory_change(e.memory) +
                     " than " + e.than;
  if (e.speed && (e.speed->claim() || (e.speed->interval && form == Form::finding)))
    text += ", and trains " + as_fast(e, form) + after(", ", verdict(*e.speed, form));
  return text + (e.condition.empty() ? "" : " (not like for like: " + e.condition + ")");
}

std::string text(const Rungs& claim, Form form) {
  if (claim.relations.empty()) return claim.before + "no rung is shown to make training faster";
  if (form == Form::clause && claim.most)
    return claim.before + with_figures(claim.relations.front(), form, false) + " gains most";
  const bool open = claim.outcome == Outcome::undecided;
  const bool one = claim.relations.size() == 1;
  std::vector<std::string> parts;
  double bound = 0;
  for (const Relation& e : claim.relations) {
    if (claim.outcome == Outcome::alike) bound = std::max(bound, verdict_of(*e.speed).bound);
    parts.push_back(claim.outcome == Outcome::alike || (open && form == Form::clause)
                        ? e.name
                        : with_figures(e, form, open));
  }
  std::string text = claim.before + listed(std::move(parts), form);
  if (open) return text + (one ? " is undecided" : " are undecided");
  text += one ? " makes " : " make ";
  if (claim.outcome == Outcome::alike) return text + describe({Outcome::alike, bound});
  text += claim.outcome == Outcome::faster ? "training faster" : "training slower";
  return text + (claim.most && !one ? "; " + claim.relations.front().name + " gains most" : "");
}

std::string text(const Scales& claim, Form form) {
  std::string text = counted(claim.ranks, "rank") + " train " + ratio(claim.speed, form) +
                     " as many tokens/s as " + counted(claim.from, "rank") + " (" + claim.title +
                     (claim.efficiency == kUnknown ? "" : ", " + claim.efficiency + " efficient") + ")" +
                     after(", ", verdict(claim.speed, form));
  if (claim.exposed_share && form == Form::finding)
    text += "; exposed communication takes " + percent(*claim.exposed_share, 0) + " of the step";
  return text;
}

std::string text(const Holds& claim, Form form) {
  std::vector<std::string> parts;
  for (const Holds::Figure& figure : claim.figures)
    parts.push_back(figure.measured.name + " (" + ratio(*figure.measured.speed, form) + ", published " +
                    ratio_only(figure.published) + (figure.holds() ? ")" : "; not shown)"));
  const auto held = std::ranges::count_if(claim.figures, &Holds::Figure::holds);
  return "of " + counted(claim.figures.size(), "published change") + " of speed " + std::to_string(held) +
         (held == 1 ? " holds" : " hold") + " here: " + listed(std::move(parts), form);
}

std::string text(const Levels& claim, Form form) {
  std::vector<std::string> parts;
  for (const auto& [name, number] : claim.rows)
    parts.push_back((claim.shares ? percent(number, 0) : fixed(number, 4)) + " (" + name + ")");
  return claim.before + listed(std::move(parts), form) + claim.after;
}

std::string text(const Changes& claim, Form form) {
  std::vector<std::string> parts;
  for (const auto& [title, least, most] : claim.quantities) {
    const std::string low = change(least), high = change(most);
    parts.push_back(title + " by " + low + (low == high ? "" : " to " + high));
  }
  return claim.choice + " changes " + listed(std::move(parts), form) + " relative to " + claim.against;
}

std::string text(const Learns& claim, Form form) {
  const auto all = std::ssize(claim.learned) + std::ssize(claim.failed);
  const std::string required = " (required: below " + exact_number(claim.required) + ")";
  if (!claim.failed.empty())
    return std::to_string(claim.failed.size()) + " of " + counted(all, "stack") +
           (claim.failed.size() == 1 ? " does" : " do") + " not learn one batch: the last loss is " +
           listed(claim.failed, 4, form) + required;
  const auto worst = std::ranges::max_element(claim.learned, {}, &Numbers::value_type::second);
  return (all == 1 ? worst->first + " learns" : "all " + std::to_string(all) + " stacks learn") +
         " one batch: the last loss is at most " + fixed(worst->second, 4) + required;
}

std::string text(const Reaches& claim, Form form) {
  std::vector<std::string> there;
  for (const Row* row : claim.there)
    there.push_back(name_in_text(row->name) + " (" + text_of(row->time_to_loss) + ")");
  const bool one = there.size() == 1;
  const std::string target = "a loss of " + exact_number(claim.target);
  std::string text = there.empty()
                         ? "no rung reaches " + target + (claim.in_some_rounds ? " in every round" : "")
                         : listed(std::move(there), form) + (one ? " reaches " : " reach ") + target;
  if (claim.others.empty()) return text;
  return text + (claim.there.empty() ? "; the last losses are " : "; not in every round: ") +
         listed(claim.others, 3, form);
}

std::string text(const Exchange& claim, Form form) {
  const Relation& e = claim.relation;
  return e.name + " reaches a loss of " + exact_number(claim.target) + " " + ratio(claim.soon, form) +
         " as soon as " + e.than + (e.speed ? ", at " + ratio(*e.speed, form) + " its tokens/s" : "") +
         after(", ", verdict(claim.soon, form));
}

std::string text(const Differs& claim, Form) {
  return "over " + counted(claim.perplexity.rounds, "seed") + ", the last loss of " + claim.name +
         " differs by " + difference_text(claim.perplexity) + " from " + claim.than +
         (claim.perplexity.interval && !claim.perplexity.claim() ? ", which may be chance" : "");
}

/// The fastest stack that a search measured over the base; null: none.
const TriedStack* top_of(const Tried& tried) {
  const TriedStack* top = nullptr;
  for (const TriedStage& stage : tried.stages)
    for (const TriedStack& each : stage.stacks)
      if (stage.reference == "base" && each.speed && (top == nullptr || *each.speed > *top->speed))
        top = &each;
  return top;
}

std::string text(const Finds& claim, Form form) {
  const Tried& tried = *claim.tried;
  const TriedStack* top = top_of(tried);
  std::string text = "the search found " + tried.best;
  if (!tried.answered) {
    text = "the search has no answer yet: its time was enough for fewer than " + std::to_string(kMinRounds) +
           " rounds";
    if (top != nullptr)
      text += "; best so far: " + top->stack + ", " + ratio_only(*top->speed) + " as fast as the base in " +
              counted(top->rounds, "round");
    return text + (tried.decides_s.value_or(0) > 0 ? "; " + would_allow_a_claim(*tried.decides_s) : "");
  }
  if (tried.best == "base") {
    // A part may be faster alone, but nothing could be built on it.
    text = "the search found nothing that is shown to be faster than the base";
    if (top != nullptr && form == Form::finding) text += "; best so far: " + top->stack + ", " + top->result;
  }
  if (!tried.finished)
    text += "; its time ended before it had tried every move, so a longer --at-most may find a faster stack";
  return text;
}

std::string text(const TrainsWorse& claim, Form form) {
  std::string text = claim.name + " trains worse than " + claim.than;
  if (form == Form::clause) return text;
  return text + ": over the last third of equally many tokens its mean " +
         (claim.losses.validated ? "validation" : "training") + " loss is " + fixed(claim.losses.loss, 3) +
         " instead of " + fixed(claim.losses.other, 3);
}

std::string text(const Ended& claim, Form form) {
  return listed(claim.names, form) + " " + what_happened(claim.status);
}

std::string text(const Open& claim, Form) { return claim.text; }
}  // namespace

std::string as_fast(const Relation& e, Form form) {
  return ratio(*e.speed, form) + (e.condition.empty() ? " as fast as " : " as many tokens/s as ") + e.than;
}

std::string memory_change(const std::optional<double>& ratio) {
  if (!ratio || std::abs(*ratio - 1) < kWorthNaming) return "";
  return size_of_change(*ratio) + (*ratio < 1 ? " less" : " more") + " memory";
}

std::string what_happened(Status status) {
  static constexpr std::array<const char*, 7> kTexts = {"",
                                                        "ran out of memory",
                                                        "failed",
                                                        "crashed",
                                                        "did not end in time",
                                                        "did not run",
                                                        "broke the correctness gate"};
  return kTexts.at(static_cast<size_t>(status));
}

std::string text_of(const Claim& claim, Form form) {
  return std::visit([&](const auto& what) { return text(what, form); }, claim.what);
}
}  // namespace optrush
