// SPDX-License-Identifier: Apache-2.0
// The word __global__ for sources that need nothing else of a vendor's header.
#pragma once

#if defined(__HIP__)
#include <stdlib.h>  // clang's wrapper of <new> needs it where no HIP header came first
#define __global__ __attribute__((global))
#endif
