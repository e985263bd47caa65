"""Token counts of one HTTP request."""

from server.api.schemas.base import ResponseModel


class PromptTokensDetails(ResponseModel):
    cached_tokens: int


class Usage(ResponseModel):
    """Each prompt is counted once; completion tokens are summed over all choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
