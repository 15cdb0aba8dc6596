// The socket of an interleaved run: ranks send "ready" and "done", the controller sends "go".
#include "launch/interleaving/interleaving_socket.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../../support/error_of.h"
#include "base/temporary_folder.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;

/// A client that sends arbitrary lines.
class Client {
 public:
  explicit Client(const fs::path& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.string().copy(address.sun_path, sizeof address.sun_path);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void say(const std::string& line) const {
    const std::string whole = line + "\n";
    EXPECT_EQ(send(socket_.get(), whole.data(), whole.size(), MSG_NOSIGNAL), whole.size());
  }
  std::string hears() const {
    std::string line(200, '\0');
    line.resize(static_cast<size_t>(recv(socket_.get(), line.data(), line.size(), 0)));
    return line;
  }

 private:
  Descriptor socket_;
};

class Socket : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  const fs::path path_ = folder_ / "s";
  InterleavingSocket socket_{path_};
};

TEST_F(Socket, TurnBelongsToEveryRank) {
  const Client zero(path_), one(path_);
  zero.say(R"({"type":"ready","rank":0,"ranks":2,"seconds":0.5})");
  socket_.poll();
  EXPECT_TRUE(socket_.spoke());
  EXPECT_FALSE(socket_.waits()) << "the other rank is not ready";
  one.say(R"({"type":"ready","rank":1,"ranks":2,"seconds":0.75})");
  socket_.poll();
  EXPECT_TRUE(socket_.waits());
  EXPECT_EQ(socket_.step_seconds(), 0.75);
  socket_.go(3);
  EXPECT_FALSE(socket_.waits());
  EXPECT_EQ(zero.hears(), "{\"type\":\"go\",\"steps\":3}\n");
  EXPECT_EQ(one.hears(), "{\"type\":\"go\",\"steps\":3}\n");
  one.say(R"({"type":"done","seconds":0.25})");
  socket_.poll();
  EXPECT_FALSE(socket_.waits());
  zero.say(R"({"type":"done","seconds":0.25})");
  socket_.poll();
  EXPECT_TRUE(socket_.waits());
}

TEST_F(Socket, InvalidMessagesAreRefused) {
  const auto refusal = [&](const std::vector<std::string>& lines) {
    const fs::path path = folder_ / "other";
    fs::remove(path);
    InterleavingSocket socket(path);
    const Client client(path);
    for (const auto& line : lines) client.say(line);
    return error_of([&] { socket.poll(); });
  };
  const std::string ready = R"({"type":"ready","rank":0,"ranks":1,"seconds":0.1})",
                    done = R"({"type":"done","seconds":0.1})";
  EXPECT_THAT(refusal({"good morning"}), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal({R"({"type":"go"})"}), HasSubstr(R"(its message: {"type":"go"})"));
  EXPECT_THAT(refusal({done}), HasSubstr(R"("ready" must come first)"));
  EXPECT_THAT(refusal({ready, done}), HasSubstr("without having been asked"));
  EXPECT_THAT(refusal({ready, ready}), HasSubstr(R"("ready" must come first and once)"));
  EXPECT_THAT(refusal({R"({"type":"ready","rank":2,"ranks":2,"seconds":0.1})"}),
              HasSubstr("rank does not exist"));
  EXPECT_THAT(refusal({R"({"type":"ready","rank":0,"ranks":1})"}), HasSubstr("seconds"));
  EXPECT_THAT(refusal({std::string(5000, 'x')}), HasSubstr("a line of more than"));
}

TEST_F(Socket, RanksAgree) {
  const Client one(path_), same(path_);
  one.say(R"({"type":"ready","rank":0,"ranks":2,"seconds":0.1})");
  socket_.poll();
  same.say(R"({"type":"ready","rank":0,"ranks":2,"seconds":0.1})");
  EXPECT_THAT(error_of([&] { socket_.poll(); }), HasSubstr("already connected"));
}
}  // namespace
}  // namespace optrush
