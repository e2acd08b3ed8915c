// SPDX-License-Identifier: Apache-2.0
// Stands in for ROCm's header of this name, where there is no ROCm: see the two headers below.
#pragma once

#if defined(__CUDACC__)
#include "../../hip_on_cuda.hpp"
#else
#include "../../hip_alone.hpp"
#endif
