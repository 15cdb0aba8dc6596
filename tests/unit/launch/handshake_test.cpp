// The proof that both ends of a connection know the secret of a job, and the MAC of each line after it.
#include "launch/run/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../support/error_of.h"

namespace optrush {
namespace {
using End = Handshake::End;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const JobSecret kSecret{"a secret of the tests"};

/// Two ends, and the bytes that each has sent.
struct TwoEnds {
  Handshake rank_0, other;
  std::string from_0 = rank_0.greeting(), from_other = other.greeting();
  std::string all_of_other = from_other;

  explicit TwoEnds(const JobSecret& of_other = kSecret)
      : rank_0(End::rank_0, kSecret), other(End::other, of_other) {}

  void exchange() {
    for (int turn = 0; turn < 3; ++turn) {
      std::string more;
      other.advance(from_0, more);
      from_other += more;
      all_of_other += more;
      rank_0.advance(from_other, from_0);
    }
  }
};

TEST(Handshake, BothEndsProveTheSecretAndThenExchangeLines) {
  TwoEnds pair;
  EXPECT_FALSE(pair.rank_0.done());
  pair.exchange();
  EXPECT_TRUE(pair.rank_0.done() && pair.other.done());
  for (const char* line : {"{}", "", R"({"type":"start"})"}) {
    EXPECT_EQ(pair.other.opened(pair.rank_0.sealed(line)), line);
    EXPECT_EQ(pair.rank_0.opened(pair.other.sealed(line)), line);
  }
}

TEST(Handshake, BytesMayArriveOneByOne) {
  Handshake rank_0(End::rank_0, kSecret), other(End::other, kSecret);
  std::string to_0 = other.greeting(), to_other = rank_0.greeting(), at_0, at_other;
  for (int i = 0; i < 300; ++i) {
    if (!to_0.empty()) at_0 += to_0[0], to_0.erase(0, 1);
    if (!to_other.empty()) at_other += to_other[0], to_other.erase(0, 1);
    rank_0.advance(at_0, to_other);
    other.advance(at_other, to_0);
  }
  EXPECT_TRUE(rank_0.done() && other.done());
  EXPECT_EQ(at_0 + at_other, "");
}

TEST(Handshake, AnotherSecretIsRefusedByBothEndsAndRank0ProvesNothing) {
  TwoEnds pair(JobSecret{"another secret"});
  EXPECT_THAT(error_of([&] { pair.exchange(); }), HasSubstr("it has another secret"));
  EXPECT_THAT(pair.from_0, std::string(32, '\0')) << "no proof, only the refusal";
  std::string more;
  EXPECT_THROW(pair.other.advance(pair.from_0, more), WrongSecret);
  EXPECT_FALSE(pair.rank_0.done() || pair.other.done());
}

TEST(Handshake, RecordedHandshakeFitsNoOtherConnection) {
  TwoEnds recorded;
  recorded.exchange();
  Handshake rank_0(End::rank_0, kSecret);
  std::string played = recorded.all_of_other, answer;
  EXPECT_THROW(rank_0.advance(played, answer), WrongSecret);
  EXPECT_EQ(answer, std::string(32, '\0'));
}

TEST(Handshake, ReflectedHandshakeFitsNeitherEnd) {
  for (const End end : {End::rank_0, End::other}) {
    Handshake own(end, kSecret);
    std::string reflected = own.greeting(), answer;
    own.advance(reflected, answer);
    reflected = answer.empty() ? std::string(32, '\0') : answer;
    EXPECT_THROW(own.advance(reflected, answer), WrongSecret);
  }
}

TEST(Handshake, OtherProtocolsAreRefusedAtTheFirstByteThatDiffers) {
  for (const std::string text : {"GET / HTTP/1.1\r\n", "{\"type\":\"hello\"}\n", "\n", "optrusH", "\xff"}) {
    Handshake own(End::rank_0, kSecret);
    std::string arrived = text, answer;
    EXPECT_THAT(error_of([&] { own.advance(arrived, answer); }), HasSubstr("does not speak the protocol"));
    EXPECT_THAT(answer, IsEmpty());
  }
}

TEST(Handshake, LinesThatWereNotSentAsTheNextOneAreRefused) {
  const auto fails = [](const std::function<void(Handshake&, Handshake&)>& disturb) {
    TwoEnds pair;
    pair.exchange();
    return error_of([&] { disturb(pair.rank_0, pair.other); });
  };
  const auto kRefused = HasSubstr("did not send");
  EXPECT_THAT(fails([](Handshake& from, Handshake& to) {
                const std::string line = from.sealed("{}");
                to.opened(line);
                to.opened(line);
              }),
              kRefused)
      << "replayed";
  EXPECT_THAT(fails([](Handshake& from, Handshake& to) {
                from.sealed("{}");
                to.opened(from.sealed("{}"));
              }),
              kRefused)
      << "left out";
  EXPECT_THAT(fails([](Handshake& from, Handshake& to) {
                std::string line = from.sealed(R"({"code":0})");
                line[line.size() - 2] = '1';
                to.opened(line);
              }),
              kRefused)
      << "changed";
  EXPECT_THAT(fails([](Handshake& from, Handshake&) { from.opened(from.sealed("{}")); }), kRefused)
      << "reflected";
  for (const std::string line : {"", "{}", R"({"type":"done","code":0,"reason":""})", "0"})
    EXPECT_THAT(fails([&](Handshake&, Handshake& to) { to.opened(line); }), kRefused) << "injected";
}
}  // namespace
}  // namespace optrush
