"""Ask with a plain client of Anthropic; `stream` as the second argument streams."""

import sys

from anthropic import Anthropic
from asking import ask_with_anthropic, instrument, send_to_receiver

provider = send_to_receiver()
instrument(sys.argv[1], provider)
ask_with_anthropic(Anthropic(), is_streaming=sys.argv[2:] == ["stream"])
provider.shutdown()
