// Messages about turns from the controller, read by a rank.
#include "train/interleaving.h"

#include <sys/socket.h>

#include "machine/socket.h"
#include "target.h"

FUZZ_TARGET(interleaving) {
  using namespace optrush;
  static const fuzz::Files files;
  static const Descriptor listener = listen_at(files / "turns");
  const std::string text = fuzz::text_of(data, size);
  fuzz::feed([&] {
    Interleaving turns(files / "turns", Ranks{});
    const Descriptor controller = accept_from(listener);
    static_cast<void>(::send(controller.get(), text.data(), text.size(), MSG_NOSIGNAL));
    ::shutdown(controller.get(), SHUT_WR);
    for (int64_t next = 0; next < 3; ++next)
      fuzz::hold(turns.next(0.5).steps >= 0, "a turn is for some steps, or the run ends");
  });
  return 0;
}
