"""Types of values with bounds, which hold however a value was given: in a file, as a dict or in an object."""

from typing import Annotated, TypeAlias

from msgspec import Meta

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0)]
Milliseconds: TypeAlias = Annotated[float, Meta(ge=0)]
Dollars: TypeAlias = Annotated[float, Meta(gt=0)]
Weight: TypeAlias = Annotated[float, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
