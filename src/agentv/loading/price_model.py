"""What tokens cost, in targets and in `.agentv.yaml`."""

from typing import Annotated

from agentv.loading.file_model import FileModel
from agentv.loading.marks import Limits
from agentv.types.usage import Price


class PriceModel(FileModel, frozen=True, kw_only=True):
    """Dollars per million tokens."""

    input_per_million: Annotated[float, Limits(ge=0)]
    output_per_million: Annotated[float, Limits(ge=0)]

    def to_price(self) -> Price:
        """Make the price."""
        return Price(self.input_per_million, self.output_per_million)
