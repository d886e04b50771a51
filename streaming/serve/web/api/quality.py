"""The endpoint of the quality gates."""

from fastapi import APIRouter
from fastapi.responses import Response

from streaming.queries import quality as of_quality
from streaming.queries.results import QualityCheck
from streaming.serve.web.api.parameters import StoreOf, sent
from streaming.serve.web.api.route import ApiRoute

router = APIRouter(tags=["health"], route_class=ApiRoute)


@router.get("/quality", response_model=list[QualityCheck])
def quality(store: StoreOf) -> Response:
    """List the last result of each check of the data, the failed ones first."""
    return sent(store.ask_here(of_quality.quality))
