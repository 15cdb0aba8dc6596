#include "sentences.h"

#include <gmock/gmock.h>

#include "claims.h"

namespace optrush::test {
namespace {
void for_each_stack(const Facts& f, const std::function<void(const TriedStage&, const TriedStack&)>& act) {
  for (const TriedStage& stage : f.analysis().tried->stages)
    for (const TriedStack& stack : stage.stacks)
      if (stack.speed) act(stage, stack);
}

void search_found_nothing(const Facts& f, bool maybe) {
  bool open = false;
  for_each_stack(f, [&](const TriedStage& stage, const TriedStack& stack) {
    if (stage.reference != "base") return;
    EXPECT_FALSE(stack.faster) << stack.stack;
    open = open || *stack.speed > 1;
  });
  EXPECT_EQ(maybe, open);
  EXPECT_TRUE(f.analysis().tried->answered);
}

void search_found(const Facts& f, const std::string& name, const std::string& results) {
  EXPECT_EQ(name, f.analysis().tried->best);
  for_each_stack(f, [&](const TriedStage& stage, const TriedStack& stack) {
    const std::string told = "(against " + stage.reference + ": " + stack.result + ")";
    if (stack.stack == name) {
      EXPECT_THAT(results, ::testing::HasSubstr(told));
    }
  });
}

void search_has_no_answer(const Facts& f, const Groups& g) {
  bool met = false;
  for_each_stack(f, [&](const TriedStage& stage, const TriedStack& stack) {
    if (stage.reference != "base") return;
    EXPECT_LT(stack.rounds, 3);
    EXPECT_LE(*stack.speed, std::stod(g[3]) + 0.006);
    if (stack.stack != g[2]) return;
    met = true;
    is(g[3], *stack.speed, "the speed");
    EXPECT_EQ(g[1].starts_with("best"), *stack.speed > 1);
    EXPECT_EQ(std::stol(g[4]), stack.rounds);
  });
  EXPECT_TRUE(met);
}
}  // namespace

Sentences of_searches(const Facts& f) {
  return {
      {"the search found nothing that is (shown to be )?faster than the base(; best so far: (.*))?(; its "
       "time ended.*)?",
       [&f](const Groups& g) { search_found_nothing(f, !g[1].empty()); }},
      {"the search found no stack that it could confirm to be faster than the base; best so far: (.*?), "
       "(.*?)(; its time ended.*)?",
       [&f](const Groups& g) {
         bool lost = false;
         for_each_stack(f, [&](const TriedStage& stage, const TriedStack& stack) {
           if (stage.reference != "base") return;
           lost = lost || stack.faster;
           if (stack.stack == g[1]) {
             EXPECT_EQ(stack.result, g[2]);
           }
         });
         EXPECT_TRUE(lost);
         EXPECT_EQ(f.analysis().tried->best, "base");
       }},
      {R"(the search found ([\w +]+?)((?: \(against [\w +]+: [^)]*\))*)(; its time ended.*)?)",
       [&f](const Groups& g) { search_found(f, g[1], g[2]); }},
      {"the search has no answer yet: its time was enough for fewer than 3 rounds; (best so far: |no stack "
       R"(was faster than the base so far \(nearest: )([\w +]+), )" +
           kValue + R"( as fast as the base in (\d+) rounds?\)?(?:; (.*))?)",
       [&f](const Groups& g) { search_has_no_answer(f, g); }},
      {"the search has no answer yet: its time was enough for fewer than 3 rounds(; about .* would allow a "
       "claim "
       ".*)?",
       [&f](const Groups&) {
         for_each_stack(f, [](const TriedStage& stage, const TriedStack& stack) {
           EXPECT_TRUE(stage.reference != "base" || !stack.speed) << stack.stack;
         });
       }},
  };
}
}  // namespace optrush::test
