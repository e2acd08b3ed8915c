// SPDX-License-Identifier: Apache-2.0
// Stands in for CUDA's header of this name under compilers of HIP.
#pragma once

#include "../cuda_on_hip.hpp"
