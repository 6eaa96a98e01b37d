// SPDX-License-Identifier: Apache-2.0
#include "triax/base/descriptor.h"

#include <unistd.h>

namespace triax {

Descriptor::~Descriptor() {
  if (fd_ >= 0) {
    close(fd_);
  }
}

}  // namespace triax
