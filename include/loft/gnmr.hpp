// SPDX-License-Identifier: Apache-2.0
// The stability of a training: norms of gradients, the GNMR controller, freezing, gradient noise. Knows no tensor.
#pragma once

#include "loft/stability/freeze.hpp"
#include "loft/stability/gnmr.hpp"
#include "loft/stability/gnmr_state.hpp"
#include "loft/stability/gnmr_unit.hpp"
#include "loft/stability/gradient_noise.hpp"
#include "loft/stability/norm.hpp"
