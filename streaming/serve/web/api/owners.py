"""The endpoint of a queue's owners, whatever the group."""

from fastapi import APIRouter
from fastapi.responses import Response

from streaming.queries import queue_owners
from streaming.queries.queue_owners import QueueOwner
from streaming.serve.web.api.parameters import At, Cluster, DatedRoute, StoreOf, sent

router = APIRouter(tags=["groups"], route_class=DatedRoute)


@router.get("/owners/{topic}/{broker}/{queue_id}", operation_id="owners_in_each_group", response_model=list[QueueOwner])
def owners(*, topic: str, broker: str, queue_id: int, store: StoreOf, at: At, cluster: Cluster = None) -> Response:
    """List who owned a queue at a time, in each group that has it."""
    asked = queue_owners.queue_owners
    return sent(store.ask_here(asked, topic, broker, queue_id, cluster=cluster, at=at))
