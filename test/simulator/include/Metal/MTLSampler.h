#pragma once

#import <Metal/MTLTexture.h>
