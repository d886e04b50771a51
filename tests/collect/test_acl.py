from streaming.base.settings import Acl
from streaming.collect.acl import signed

FIELDS = {"consumerGroup": "orders-group", "Zeta": "1"}


def test_the_signature_is_the_one_of_the_java_client():
    # AclClientRPCHook.doBeforeRequest of 5.4.0 on the same fields
    assert signed(FIELDS, Acl(access_key="key", secret_key="secret", security_token="")) == {
        **FIELDS,
        "AccessKey": "key",
        "Signature": "cRgZJZOC5KE0OhulX9CMZlHaZu0=",
    }
    with_token = signed(FIELDS, Acl(access_key="key", secret_key="secret", security_token="tok"))
    assert with_token["Signature"] == "pP7fcEMwSVEWzVCbPCGU6T+Kgz4="
    assert with_token["SecurityToken"] == "tok"


def test_without_a_key_nothing_is_added():
    assert signed(FIELDS, Acl(access_key="", secret_key="", security_token="")) == FIELDS
