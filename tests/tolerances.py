"""How far apart two right results may be, by dtype: absolute, on logits of tiny random models.

Their logits reach about 6. float32: sums of a few hundred terms in another order.
"""

import torch

LOGITS = {torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.3}
