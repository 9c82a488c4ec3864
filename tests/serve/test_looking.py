"""What the page shows of samples."""

import base64
import io
from pathlib import Path

from PIL import Image

from tests.serve.served import HERE, PICTURES, X, as_base64, picture, served, teach

RED, BLUE = (250, 10, 10), (10, 10, 250)


def test_pictures_that_are_held(tmp_path: Path) -> None:
    with served(tmp_path / "w", PICTURES) as (client, _service):
        assert client.get("/v1/memory/samples").json() == []
        sent = [as_base64(picture(colour)) for colour in (RED, RED, BLUE)]
        client.post("/v1/learn", json={"images": sent, "labels": ["red", "red", "blue"]})
        red, blue = client.get("/v1/memory/samples?most=1").json()
        assert (red["label"], red["count"], len(red["newest"]), red["newest"][0]["age"]) == ("red", 2, 1, 1)
        image = Image.open(io.BytesIO(base64.b64decode(blue["newest"][0]["image"])))
        assert image.size == (8, 8) and image.getpixel((0, 0)) == BLUE
        assert client.get("/v1/memory/samples?most=0").status_code == 422


def test_questions_the_least_sure_first_and_neighbours_of_them(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        client.post("/v1/ask", json={"arrays": X[:2]})
        (question,) = client.get("/v1/questions").json()
        assert question["sureness"] == 0 and [each["label"] for each in question["answers"]] == [None, None]
        assert client.get("/v1/questions/0/neighbours").json() == [[], []]
        for _ in range(20):
            teach(client)
        client.post("/v1/ask", json={"arrays": [[0.5, 0.5, 0.5, 0.5]]})
        client.post("/v1/ask", json={"arrays": X[2:3]})
        found = client.get("/v1/questions").json()
        assert [each["sureness"] for each in found] == sorted(each["sureness"] for each in found) and len(found) == 3
        assert found[-1]["samples"] == [{"image": None, "values": X[2]}] or found[-1]["ticket"] == 0
        first, second = client.get("/v1/questions/0/neighbours").json()
        assert (first[0]["label"], first[0]["distance"], first[0]["values"]) == ("a", 0, X[0])
        assert second[0]["label"] == "b" and first[-1]["distance"] >= first[0]["distance"]
        assert client.get("/v1/questions/9/neighbours").status_code == 404


def test_a_question_of_many_samples_hides_no_other_and_is_not_lost(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):

        def shown() -> list[int]:
            return [each["ticket"] for each in client.get("/v1/questions").json()]

        client.post("/v1/ask", json={"arrays": X[:1]})
        client.post("/v1/ask", json={"arrays": X * 30})
        assert shown() == [0]
        client.post("/v1/tell", json={"ticket": 0, "labels": ["a"]})
        assert shown() == [1]


def test_the_page_needs_no_token_and_runs_nothing_from_elsewhere(tmp_path: Path) -> None:
    with served(tmp_path / "w") as (client, _service):
        page = client.get("/", headers={"Origin": HERE})
        assert page.headers["content-type"].startswith("text/html")
        policy = page.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy and "http" not in policy
        assert "<style" not in page.text and "onclick" not in page.text and page.text.count("<script") == 1
        for name in ("page.js", "service.js", "elements.js", "watch.js", "chart.js", "teach.js", "undo.js"):
            script = client.get(f"/{name}")
            assert script.headers["content-type"].startswith("text/javascript") and "innerHTML" not in script.text
