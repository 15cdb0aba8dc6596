// Messages about turns from a training program, read by the controller: lines of JSON over a socket.
#include "launch/interleaving/interleaving_socket.h"

#include <sys/socket.h>

#include "machine/socket.h"
#include "target.h"

/// The first byte is the number of lines before the controller gives a turn. The rest is the received text.
FUZZ_TARGET(interleaving_socket) {
  using namespace optrush;
  static const fuzz::Files files;
  if (size == 0) return 0;
  const std::string text = fuzz::text_of(data + 1, size - 1);
  const std::filesystem::path path = files / "turns";
  std::filesystem::remove(path);
  fuzz::feed([&] {
    InterleavingSocket controller(path);
    const Descriptor program = connect_to(path);
    size_t end = 0;
    for (int lines = data[0] % 4; lines > 0 && end != std::string::npos; --lines)
      end = text.find('\n', end == 0 ? 0 : end + 1);
    const size_t first = end == std::string::npos ? text.size() : end;
    static_cast<void>(::send(program.get(), text.data(), first, MSG_NOSIGNAL | MSG_DONTWAIT));
    controller.poll();
    if (controller.waits()) {
      fuzz::hold(controller.spoke(), "who waits has said so");
      controller.go(3);
      fuzz::hold(!controller.waits(), "who has a turn does not wait");
    }
    static_cast<void>(
        ::send(program.get(), text.data() + first, text.size() - first, MSG_NOSIGNAL | MSG_DONTWAIT));
    ::shutdown(program.get(), SHUT_WR);
    controller.poll();
    fuzz::hold(controller.step_seconds() >= 0, "a step takes no negative time");
  });
  return 0;
}
