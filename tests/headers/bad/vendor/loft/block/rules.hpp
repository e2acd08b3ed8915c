// SPDX-License-Identifier: Apache-2.0
// A control of the floors: a generic header that includes a header of a vendor.
#pragma once
#include <cuda_fp8.h>
