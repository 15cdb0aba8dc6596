#include "search/search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace optrush {
namespace {
using End = Forecast::End;

/// The stack in a canonical order.
Picks sorted(Picks stack) {
  std::ranges::sort(stack);
  return stack;
}

Picks without(Picks stack, size_t axis) {
  std::erase_if(stack, [&](const Pick& pick) { return pick.axis == axis; });
  return stack;
}

/// Replaces the alternative of the pick's axis, or adds the pick.
Picks with(Picks stack, const Pick& pick) {
  const auto present = std::ranges::find(stack, pick.axis, &Pick::axis);
  if (present == stack.end())
    stack.push_back(pick);
  else
    *present = pick;
  return stack;
}

class Search {
 public:
  Search(const std::vector<size_t>& choices, Evaluator& evaluator) : evaluator_(evaluator) {
    for (size_t axis = 0; axis < choices.size(); ++axis)
      for (size_t choice = 0; choice < choices[axis]; ++choice) all_.push_back({axis, choice});
  }

  Found run() {
    measure_each_alone();
    Picks best = all_that_pay();
    std::set<Picks> visited;
    while (visited.insert(sorted(best)).second) {
      if (claimed_nothing() || !evaluator_.goes_on()) {
        found_.finished = false;
        break;
      }
      const Picks claimed = improved(best);
      best = sorted(claimed) == sorted(best) ? with_what_seems_to_pay(best) : claimed;
    }
    const auto too_short = [](const Considered& each) { return each.trial.ok && each.trial.too_short; };
    if (!found_.stages.empty() && std::ranges::any_of(found_.stages.back().stacks, too_short))
      found_.finished = false;
    found_.answered = found_.stages.size() != 1 || !claimed_nothing();
    std::ranges::stable_sort(best, std::greater(), [&](const Pick& pick) { return gain_.at(pick); });
    found_.best = best;
    return std::move(found_);
  }

 private:
  /// Whether the last stage had too little time for any claim.
  bool claimed_nothing() const {
    bool any = false;
    for (const Considered& each : found_.stages.back().stacks) {
      if (!each.trial.ok) continue;
      if (!each.trial.too_short) return false;
      any = true;
    }
    return any;
  }

  void measure_each_alone() {
    std::vector<Picks> singles;
    for (const Pick& pick : all_) singles.push_back({pick});
    const double plain = forecast({}).peak_bytes;
    for (const Considered& each : stage({}, singles)) {
      const Pick pick = each.stack.front();
      gain_[pick] = latest_[pick] = each.trial.ok ? each.trial.speed : 0;
      pays_[pick] = each.trial.ok && each.trial.faster;
      const double peak = forecast(each.stack).peak_bytes;
      if (each.trial.ok && peak > 0 && peak < plain) savers_.push_back(pick);
    }
  }

  /// Adds the wanted alternatives that fit, the largest value first, at most one of each axis.
  Picks filled(Picks stack, const std::map<Pick, double>& value, auto&& wanted) {
    std::vector<Pick> order = all_;
    std::ranges::stable_sort(order, std::greater(), [&](const Pick& pick) { return value.at(pick); });
    for (const Pick& pick : order) {
      if (!wanted(pick) || std::ranges::count(stack, pick.axis, &Pick::axis) > 0) continue;
      if (forecast(with(stack, pick)).end == End::fits) stack = with(stack, pick);
    }
    return stack;
  }

  /// The best alternative of each axis, as far as they fit together.
  Picks all_that_pay() {
    return filled({}, gain_, [&](const Pick& pick) { return pays_.at(pick); });
  }

  /// All stacks that differ from `stack` in one part.
  std::vector<Picks> moves(const Picks& stack) {
    std::vector<Picks> found;
    std::set<Picks> known{sorted(stack)};
    const auto add = [&](const Picks& moved) {
      if (known.insert(sorted(moved)).second) found.push_back(moved);
    };
    for (const Pick& present : stack) add(without(stack, present.axis));
    for (const Pick& pick : all_) {
      if (std::ranges::count(stack, pick) > 0) continue;
      const Picks moved = with(stack, pick);
      add(moved);
      if (forecast(moved).end != End::too_large) continue;
      for (const Pick& saver : savers_)
        if (saver.axis != pick.axis && std::ranges::count(stack, saver) == 0) add(with(moved, saver));
    }
    add(all_that_seem_to_pay_on(stack));
    return found;
  }

  /// Adds all parts that seemed to pay when they were last added to a stack. Small gains may be claimable
  /// together, even if none of them is alone.
  Picks all_that_seem_to_pay_on(const Picks& stack) {
    return filled(stack, latest_, [&](const Pick& pick) { return latest_.at(pick) > 1; });
  }

  /// If no move from `stack` can be claimed: adds all parts that seem to pay, unless the result is measured
  /// to be slower. It is the better guess; the final ladder shows how certain each part is.
  Picks with_what_seems_to_pay(const Picks& stack) {
    const Picks together = all_that_seem_to_pay_on(stack);
    const auto is_it = [&](const Considered& each) { return sorted(each.stack) == sorted(together); };
    if (is_it({stack, "", {}}) || !evaluator_.goes_on()) return stack;
    const auto& known = found_.stages.back().stacks;
    const auto measured = std::ranges::find_if(known, is_it);
    const Considered result = measured != known.end() ? *measured : stage(stack, {together}).front();
    return result.trial.ok && result.trial.speed > 1 ? together : stack;
  }

  /// Removes the part with the smallest gain, because parts that pay alone may not train together.
  Picks without_the_least(const Picks& stack) const {
    const auto gain = [&](const Pick& pick) { return gain_.at(pick); };
    return without(stack, std::ranges::min_element(stack, {}, gain)->axis);
  }

  /// The axes that a move changes, with their new alternative or none.
  static std::map<size_t, std::optional<Pick>> changes(const Picks& from, const Picks& to) {
    std::map<size_t, std::optional<Pick>> found;
    for (const Pick& pick : from)
      if (std::ranges::count(to, pick.axis, &Pick::axis) == 0) found[pick.axis] = std::nullopt;
    for (const Pick& pick : to)
      if (std::ranges::count(from, pick) == 0) found[pick.axis] = pick;
    return found;
  }

  /// Applies all moves that can be claimed to be faster, fastest first. A move is skipped if a faster one
  /// changes the same axis otherwise. Two moves may be worth less together than alone; the next stage reverts
  /// what does not pay.
  Picks improved(const Picks& stack) {
    std::vector<Considered> results = stage(stack, moves(stack));
    const auto reference_failed = [](const Considered& each) { return each.trial.reference_failed; };
    if (!stack.empty() && std::ranges::any_of(results, reference_failed)) return without_the_least(stack);
    for (const Considered& each : results)
      if (const auto move = changes(stack, each.stack);
          each.stack.size() == stack.size() + 1 && move.size() == 1 && move.begin()->second)
        latest_[*move.begin()->second] = each.trial.ok ? each.trial.speed : 0;
    std::erase_if(results, [](const Considered& each) { return !each.trial.ok || !each.trial.faster; });
    std::ranges::stable_sort(results, std::greater(),
                             [](const Considered& each) { return each.trial.speed; });
    Picks best = stack;
    std::map<size_t, std::optional<Pick>> changed;
    for (const Considered& each : results) {
      const auto move = changes(stack, each.stack);
      const auto contradicts = [&](const auto& change) {
        const auto known = changed.find(change.first);
        return known != changed.end() && known->second != change.second;
      };
      if (std::ranges::any_of(move, contradicts)) continue;
      Picks both = best;
      for (const auto& [axis, pick] : move) both = pick ? with(both, *pick) : without(both, axis);
      if (!changed.empty() && forecast(both).end != End::fits) continue;
      best = both;
      changed.insert(move.begin(), move.end());
    }
    return best;
  }

  /// Runs the stacks that fit, and records the others.
  std::vector<Considered> stage(const Picks& reference, const std::vector<Picks>& stacks) {
    SearchStage stage{reference, {}};
    std::vector<Picks> fitting;
    for (const Picks& stack : stacks) {
      const Forecast& known = forecast(stack);
      stage.stacks.push_back({stack, known.end == End::fits ? "" : known.reason, {}});
      if (known.end == End::fits) fitting.push_back(stack);
    }
    if (!fitting.empty()) {
      const std::vector<Trial> trials = evaluator_.measure(reference, fitting);
      size_t next = 0;
      for (Considered& each : stage.stacks) {
        if (!each.reason.empty()) continue;
        each.trial = trials.at(next++);
        each.reason = each.trial.reason;
      }
    }
    found_.stages.push_back(stage);
    return stage.stacks;
  }

  const Forecast& forecast(const Picks& stack) {
    const auto known = forecasts_.find(sorted(stack));
    return known != forecasts_.end()
               ? known->second
               : forecasts_.emplace(sorted(stack), evaluator_.forecast(stack)).first->second;
  }

  Evaluator& evaluator_;
  std::vector<Pick> all_;
  std::map<Pick, double> gain_;    ///< gain of each pick alone
  std::map<Pick, double> latest_;  ///< gain of each pick when it was last added to a stack
  std::map<Pick, bool> pays_;
  std::vector<Pick> savers_;  ///< picks that lower the predicted peak of the base
  std::map<Picks, Forecast> forecasts_;
  Found found_;
};
}  // namespace

Found search(const std::vector<size_t>& choices, Evaluator& evaluator) {
  return Search(choices, evaluator).run();
}
}  // namespace optrush
