// SPDX-License-Identifier: Apache-2.0
// The stability of a training: norms of gradients, the GNMR controller, freezing, gradient noise. Knows no tensor.
#ifndef LOFT_GNMR_HPP
#define LOFT_GNMR_HPP

#include "loft/stability/freeze.hpp"
#include "loft/stability/gnmr.hpp"
#include "loft/stability/gnmr_state.hpp"
#include "loft/stability/gnmr_unit.hpp"
#include "loft/stability/gradient_noise.hpp"
#include "loft/stability/norm.hpp"

#endif
